"""The corpora of a configuration: where their files are and what reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

from beyond_perplexity.corpus import formats
from beyond_perplexity.errors import InputError
from beyond_perplexity.planning.configuration_file import (
    Config,
    as_json,
    base_corpus,
    locations,
    source_locations,
    split_unit,
)
from beyond_perplexity.tendencies.word_classes import stop_word_list

STOP_WORD_LISTS = frozenset({"auto", "gensim", "nltk"})
# Tokens for each byte of a corpus that is not read yet; where it is not there, or comes with pip.
TOKENS_PER_BYTE, ASSUMED_TOKENS, EMBEDDED_TOKENS = 0.2, 100_000_000, 500_000


class Corpora:
    """The corpora of a run, and the other files from outside."""

    def __init__(self, config: Config, results: str) -> None:
        self.config, self.results = config, results
        found = [place for key, place in locations(config) if not key.startswith("pathvars.")]
        # By the SHA-256 of their content.
        self.downloads = {place["sha256"]: place for place in found if isinstance(place, dict)}
        self._local = [place for place in found if isinstance(place, str)]
        self.tokens = cache(self._count_tokens)

    def missing_files(self) -> list[str]:
        """List the local files that the configuration names and that are not there."""
        wanted = (path for path in self._local if path not in STOP_WORD_LISTS)
        external = (path for path in wanted if not path.startswith(formats.EMBEDDED))
        return [file for file in dict.fromkeys(external) if not Path(file).exists()]

    def local_path(self, location: str | Mapping[str, str]) -> str:
        """Return where a location is on this machine: itself, or its place among the downloads."""
        if isinstance(location, str):
            return location
        return f"{self.results}/downloads/{location['sha256']}/{location_name(location)}"

    def url(self, sha256: str) -> str:
        """Return the URL of a download."""
        return self.downloads[sha256]["url"]

    def members(self, sha256: str) -> list[str]:
        """List the path inside a zip archive that a download is about; none for a plain file."""
        download = self.downloads[sha256]
        return [download["member"]] if "member" in download else []

    def stop_words(self, corpus: str) -> str:
        """Return the name or the local path of the list of stop words of a corpus' language."""
        given = self.local_path(self.config["tendencies"]["stop_words"])
        preprocessing = self.config["corpora"][base_corpus(self.config, corpus)]["preprocessing"]
        return stop_word_list(given, preprocessing["language"])

    def stop_word_files(self) -> list[str]:
        """List the file that the stop words come from, where it is no list that pip installed."""
        local = self.local_path(self.config["tendencies"]["stop_words"])
        return [] if local in STOP_WORD_LISTS else [local]

    def source_files(self, corpus: str) -> list[str]:
        """List the files that a corpus is read from; what pip installed is not among them."""
        found = source_locations("", self.config["corpora"][corpus]["source"])
        local = [self.local_path(location) for _, location in found]
        return [path for path in local if not path.startswith(formats.EMBEDDED)]

    def _count_tokens(self, corpus: str) -> float:
        """Return the tokens of a corpus: counted, or about those that its files hold."""
        counted = Path(self.results) / "corpora" / corpus / "extraction.json"
        if counted.exists():
            return float(json.loads(counted.read_text(encoding="utf-8"))["tokens"])
        files = [Path(file) for file in self.source_files(corpus)]
        size = sum(file.stat().st_size for file in files if file.exists())
        return (TOKENS_PER_BYTE * size or ASSUMED_TOKENS) if files else EMBEDDED_TOKENS

    def present(self, files: Iterable[str]) -> list[str]:
        """Leave out what is neither made by the run nor there: planning comes before fetching."""
        made = ("<results>", f"{self.results}/")
        return [path for path in files if path.startswith(made) or Path(path).exists()]

    def split_unit(self, corpus: str) -> str:
        """Return what the splits of a corpus keep whole: documents or pages."""
        return split_unit(self.config, corpus)

    def options(self, corpus: str) -> str:
        """Return the options of `scripts.extract_corpus` as JSON: nothing is left to look up."""
        options = json.loads(json.dumps(self.config["corpora"][corpus]))
        source, local = options["source"], self.local_path
        paths = source["paths"]
        if isinstance(paths, dict):
            source["paths"] = {split: list(map(local, files)) for split, files in paths.items()}
        else:
            source["paths"] = list(map(local, paths))
        source |= {name: local(source[name]) for name in formats.SIDE_FILES if name in source}
        for name, option in formats.FORMATS[source["format"]].options.items():
            if option.default is not None:
                source.setdefault(name, option.default)
        return as_json(options)

    def code(self, corpus: str) -> list[str]:
        """List what is looked up by name to read a corpus: modules, and the row of a parser."""
        options = self.config["corpora"][corpus]
        code = [_file(formats.FORMATS[options["source"]["format"]].module)]
        trees = options.get("trees", {}).get("kind")
        if trees in formats.PARSERS:
            code.append(_file(formats.PARSERS[trees].module))
            code.append(f"beyond_perplexity.corpus.formats:PARSERS[{trees}]")
        return code

    # ---- samples and external pairs ----

    def external_file(self, name: str) -> str:
        """Return where external samples are on this machine."""
        return self.local_path(self.config["external_samples"][name]["path"])

    def external_format(self, name: str) -> str:
        """Return the format of external samples, by their suffix where none is given."""
        given: str = self.config["external_samples"][name]["format"]
        path = PurePosixPath(self.external_file(name))
        return formats.guess_format(path) if given == formats.AUTOMATIC else given

    def external_field(self, name: str) -> list[str]:
        """Return the field of the texts in external samples; none where it is ``text``."""
        field = self.config["external_samples"][name]["field"]
        return [] if field is None else [field]

    def external_code(self, name: str) -> list[str]:
        """List the source file that reads external samples."""
        return [_file(formats.FORMATS[self.external_format(name)].module)]

    def pairs_file(self, name: str) -> str:
        """Return where external pairs of sentences are on this machine."""
        return self.local_path(self.config["contrastive"]["pairs"][name]["path"])


def _file(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def location_name(location: str | Mapping[str, str]) -> str:
    """Return the name of a file, or of the file at a URL, or in the archive that is there."""
    if isinstance(location, str):
        return PurePosixPath(location).name
    url = location["url"].split("?")[0]
    return PurePosixPath(location.get("member", url)).name or "download"


def check_text_formats(config: Config) -> None:
    """Refuse to read as text what another format has by its name, and fields of what has none."""
    for name, corpus in config["corpora"].items():
        key, form = f"corpora.{name}.source", corpus["source"]["format"]
        for place, location in source_locations(key, corpus["source"]):
            if place.startswith(f"{key}.paths"):
                _check_is_text(key, form, PurePosixPath(location_name(location)), location)
    for name, external in config["external_samples"].items():
        key, path = f"external_samples.{name}", PurePosixPath(location_name(external["path"]))
        _check_is_text(key, external["format"], path, external["path"])
        try:
            formats.check_field(path, external["field"], external["format"])
        except InputError as error:
            raise InputError(f"config: {key}.field: {error}") from error


def _check_is_text(key: str, given: str, path: PurePosixPath, location: object) -> None:
    if given != "text" or str(location).startswith(formats.EMBEDDED):
        return
    try:
        found = formats.guess_format(path)
    except InputError as error:
        raise InputError(f"config: {key}.format: is text, but {error}") from error
    if found != "text":
        raise InputError(
            f"config: {key}.format: is text, but {path} is {found} by its name; set format: {found}"
        )
