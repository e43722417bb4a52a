"""Read samples of a user: cleaned, tokenized, as one shard of samples."""

from __future__ import annotations

from pathlib import Path

from beyond_perplexity.corpus.external import import_texts
from beyond_perplexity.corpus.formats import TEXT_FORMATS
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.storage.accounts import accounts_told
from beyond_perplexity.storage.provenance import content_hash, value_hash
from scripts._job import Given, flag, job, json_flag, needed, output


def _hash(path: Path) -> str:
    """Hash a file, or what all files of a folder have."""
    if path.is_file():
        return content_hash(path)
    files = sorted(one for one in path.rglob("*") if one.is_file())
    return value_hash({str(one.relative_to(path)): content_hash(one) for one in files})


@job(
    needed("--input", "file with one document a line or row, or a folder of the library datasets"),
    needed("--format", "", choices=TEXT_FORMATS),
    flag("--field", "field or column of the texts (default: text)", nargs="*", default=[]),
    json_flag("--preprocessing", "options of the cleaning steps, JSON"),
    output("--output", "shard of samples to write"),
)
def main(options: Given) -> None:
    preprocessing = Preprocessing.from_config(options.preprocessing)
    record = options.record({**vars(options), "sha256": _hash(Path(options.input))})
    source, output = Path(options.input), Path(options.output)
    field = options.field[0] if options.field else None
    with accounts_told():
        import_texts(source, options.format, preprocessing, output, record, field=field)
