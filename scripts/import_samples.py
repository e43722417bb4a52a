"""Read samples that a user brought: cleaned, tokenized, as one shard of samples."""

from __future__ import annotations

from pathlib import Path

from beyond_perplexity.arguments import CommandParser, output_file
from beyond_perplexity.corpus.external import import_texts
from beyond_perplexity.corpus.formats import TEXT_FORMATS
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.errors import run_command
from beyond_perplexity.options import json_object
from beyond_perplexity.storage.accounts import accounts_told
from beyond_perplexity.storage.provenance import content_hash, run_record


def main() -> None:
    parser = CommandParser(description=__doc__)
    add = parser.add_argument
    add("--input", required=True, help="file with one document a line")
    add("--format", required=True, choices=TEXT_FORMATS)
    add("--field", nargs="*", default=[], help="field or column of the texts (default: text)")
    add("--preprocessing", type=json_object, default={}, help="options of the cleaning steps, JSON")
    add("--output", type=output_file, required=True, help="shard of samples to write")
    options = parser.parse_args()
    preprocessing = Preprocessing.from_config(options.preprocessing)
    record = run_record(
        "scripts/import_samples.py", {**vars(options), "sha256": content_hash(options.input)}
    )
    source, output = Path(options.input), Path(options.output)
    field = options.field[0] if options.field else None
    with accounts_told():
        import_texts(source, options.format, preprocessing, output, record, field=field)


if __name__ == "__main__":
    run_command(main)
