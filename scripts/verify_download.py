"""Keep a downloaded file if its content has the expected SHA-256; otherwise say what came instead."""

from __future__ import annotations

import argparse
import shutil

from beyond_perplexity.errors import run_command
from beyond_perplexity.provenance import check_sha256
from beyond_perplexity.shards import atomic_path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True, help="the downloaded file")
    parser.add_argument("--sha256", required=True, help="expected SHA-256, 64 hexadecimal digits")
    parser.add_argument("--output", required=True, help="where the verified file goes")
    options = parser.parse_args()
    check_sha256(options.input, options.sha256)
    with atomic_path(options.output) as temporary:
        shutil.copyfile(options.input, temporary)


if __name__ == "__main__":
    run_command(main)
