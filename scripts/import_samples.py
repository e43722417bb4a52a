"""Read samples of a user: cleaned, tokenized, as one shard of samples."""

from __future__ import annotations

from pathlib import Path

from beyond_perplexity.corpus.external import import_texts
from beyond_perplexity.corpus.formats import TEXT_FORMATS
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.storage.accounts import accounts_told
from beyond_perplexity.storage.provenance import content_hash
from scripts._job import Given, flag, job, json_flag, needed, output


@job(
    needed("--input", "file with one document a line"),
    needed("--format", "", choices=TEXT_FORMATS),
    flag("--field", "field or column of the texts (default: text)", nargs="*", default=[]),
    json_flag("--preprocessing", "options of the cleaning steps, JSON"),
    output("--output", "shard of samples to write"),
)
def main(options: Given) -> None:
    preprocessing = Preprocessing.from_config(options.preprocessing)
    record = options.record({**vars(options), "sha256": content_hash(options.input)})
    source, output = Path(options.input), Path(options.output)
    field = options.field[0] if options.field else None
    with accounts_told():
        import_texts(source, options.format, preprocessing, output, record, field=field)
