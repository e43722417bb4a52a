"""The corpora of a configuration: where their files are and what reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from beyond_perplexity.corpus.formats import (
    AUTOMATIC,
    EMBEDDED,
    FORMATS,
    PARSERS,
    SIDE_FILES,
    check_field,
    guess_format,
)
from beyond_perplexity.errors import InputError
from beyond_perplexity.planning.parameters import Config, as_json, base_corpus, split_unit
from beyond_perplexity.semantics.evaluators.families import evaluator_locations
from beyond_perplexity.tendencies.word_classes import stop_word_list

STOP_WORD_LISTS = frozenset({"auto", "gensim", "nltk"})


class Corpora:
    """The corpora of a run, and the other files from outside.

    `downloads` by the SHA-256 of a content.
    """

    def __init__(self, config: Config, results: str) -> None:
        self.config = config
        self.results = results
        remote = [place for place in self.locations() if isinstance(place, dict)]
        self.downloads = {place["sha256"]: place for place in remote}

    def locations(self) -> Iterable[str | dict[str, str]]:
        """Yield every path, or address, that the configuration names."""
        for corpus in self.config["corpora"].values():
            yield from _source_locations(corpus["source"])
        yield from (external["path"] for external in self.config["external_samples"].values())
        yield from (pairs["path"] for pairs in self.config["contrastive"]["pairs"].values())
        yield from (held["path"] for held in self.config["semantics"]["human_scores"].values())
        for evaluator in self.config["evaluators"].values():
            yield from evaluator_locations(evaluator)
        yield self.config["tendencies"]["stop_words"]

    def local_path(self, location: str | Mapping[str, str]) -> str:
        """Return where a location is on this machine: itself, or its place among the downloads."""
        if isinstance(location, str):
            return location
        return f"{self.results}/downloads/{location['sha256']}/{location_name(location)}"

    def url(self, sha256: str) -> str:
        """Return the address of a download."""
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
        """List the file that the stop words come from, where it is not a list that pip brought."""
        local = self.local_path(self.config["tendencies"]["stop_words"])
        return [] if local in STOP_WORD_LISTS else [local]

    def source_files(self, corpus: str) -> list[str]:
        """List the files that a corpus is read from; what pip brought is not among them."""
        locations = _source_locations(self.config["corpora"][corpus]["source"])
        local = [self.local_path(location) for location in locations]
        return [path for path in local if not path.startswith(EMBEDDED)]

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
        for name in SIDE_FILES:
            if name in source:
                source[name] = local(source[name])
        for name, option in FORMATS[source["format"]].options.items():
            if option.default is not None:
                source.setdefault(name, option.default)
        return as_json(options)

    def code(self, corpus: str) -> list[str]:
        """List the modules that a row names to read a corpus, which its jobs depend on.

        The row of the parser is among them, as its words stand in the report of the extraction.
        """
        options = self.config["corpora"][corpus]
        code = [f"{FORMATS[options['source']['format']].module.replace('.', '/')}.py"]
        trees = options.get("trees", {}).get("kind")
        if trees in PARSERS:
            code.append(f"{PARSERS[trees].module.replace('.', '/')}.py")
            code.append(f"beyond_perplexity.corpus.formats:PARSERS[{trees}]")
        return code

    def external_format(self, name: str) -> str:
        """Return the format of samples that were brought, by their suffix where none is given."""
        external = self.config["external_samples"][name]
        given: str = external["format"]
        path = PurePosixPath(self.local_path(external["path"]))
        return guess_format(path) if given == AUTOMATIC else given

    def external_field(self, name: str) -> list[str]:
        """Return the field of the texts in samples that were brought; none where it is ``text``."""
        field = self.config["external_samples"][name]["field"]
        return [] if field is None else [field]

    def external_file(self, name: str) -> str:
        """Return where samples that were brought are on this machine."""
        return self.local_path(self.config["external_samples"][name]["path"])

    def pairs_file(self, name: str) -> str:
        """Return where pairs of sentences that were brought are on this machine."""
        return self.local_path(self.config["contrastive"]["pairs"][name]["path"])

    def external_code(self, name: str) -> list[str]:
        """List the source file that reads samples that were brought."""
        return [f"{FORMATS[self.external_format(name)].module.replace('.', '/')}.py"]


def location_name(location: str | Mapping[str, str]) -> str:
    """Return the name of a file, or of the file at an address, or in the archive that is there."""
    if isinstance(location, str):
        return PurePosixPath(location).name
    address = location["url"].split("?")[0]
    return PurePosixPath(location.get("member", address)).name or "download"


def check_text_formats(config: Config) -> None:
    """Check that files of texts are of the formats that the configuration gives them."""
    for name, corpus in config["corpora"].items():
        source = corpus["source"]
        for location in _flat(source["paths"]):
            _check_is_text(f"corpora.{name}.source", source["format"], location)
    for name, external in config["external_samples"].items():
        key, path = f"external_samples.{name}", PurePosixPath(location_name(external["path"]))
        _check_is_text(key, external["format"], external["path"])
        try:
            check_field(path, external["field"], external["format"])
        except InputError as error:
            raise InputError(f"config: {key}.field: {error}") from error


def _check_is_text(key: str, given: str, location: str | Mapping[str, str]) -> None:
    """Refuse to read as text what another format has by its name."""
    path = PurePosixPath(location_name(location))
    if given != "text" or str(location).startswith(EMBEDDED):
        return
    try:
        found = guess_format(path)
    except InputError as error:
        raise InputError(f"config: {key}.format: is text, but {error}") from error
    if found != "text":
        raise InputError(
            f"config: {key}.format: is text, but {path} is {found} by its name; set format: {found}"
        )


def _source_locations(source: Mapping[str, Any]) -> list[Any]:
    """List every file of a corpus: its texts and what lies beside them."""
    return [*_flat(source["paths"]), *(source[name] for name in SIDE_FILES if name in source)]


def _flat(paths: Any) -> list[Any]:
    """List locations that may be given by split."""
    return list(chain.from_iterable(paths.values())) if isinstance(paths, dict) else list(paths)
