"""Moses tokenization, lines per second on one core: this package against sacremoses.

    python -m benchmarks.tokenization [--text FILE] [--language en] [--lines 4000]

The text, unless given, is what gensim's wheel brings: news articles and the articles of a Wikipedia
dump excerpt without their markup. Both take turns on the same lines; the best of the rounds counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from itertools import chain, islice
from pathlib import Path

from gensim.corpora.wikicorpus import extract_pages, filter_wiki
from gensim.test.utils import datapath
from gensim.utils import open as open_any
from sacremoses import MosesTokenizer

from beyond_perplexity.corpus.moses import LANGUAGES, tokenize_lines

DUMP = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"


def bundled_lines(n: int) -> list[str]:
    """Take n lines that hold text from the files of gensim's wheel."""
    with open_any(datapath(DUMP), "rb") as dump:
        articles = (filter_wiki(text) for _, text, _ in extract_pages(dump))
        news = [Path(datapath("lee_background.cor")).read_text(encoding="utf-8")]
        lines = (line for text in chain(news, articles) for line in text.split("\n"))
        return list(islice((line for line in lines if line.strip()), n))


def best_seconds(functions: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Time functions in turns and return the best of each."""
    best = [float("inf")] * len(functions)
    for _ in range(rounds):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="a UTF-8 text file to use instead")
    parser.add_argument("--language", default="en", choices=LANGUAGES, help="the rules to use")
    parser.add_argument("--lines", type=int, default=4000, help="lines to read at most")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each")
    options = parser.parse_args()
    if options.text:
        lines = options.text.read_text(encoding="utf-8").split("\n")[: options.lines]
    else:
        lines = bundled_lines(options.lines)
    tokenizer = MosesTokenizer(options.language)

    def sacremoses() -> list[str]:
        return [tokenizer.tokenize(line, escape=False, return_str=True) for line in lines]

    def ours() -> list[str]:
        return tokenize_lines(lines, options.language)

    same = sum(a == b for a, b in zip(ours(), sacremoses(), strict=True))  # warms both, too
    ours_seconds, their_seconds = best_seconds([ours, sacremoses], options.rounds)
    print(f"lines                 {len(lines):>10,}")
    print(f"characters per line   {sum(map(len, lines)) / len(lines):>10.0f}")
    print(f"identical lines       {same / len(lines):>10.3%}")
    print(f"sacremoses, lines/s   {len(lines) / their_seconds:>10,.0f}")
    print(f"this package, lines/s {len(lines) / ours_seconds:>10,.0f}")
    print(f"ratio                 {their_seconds / ours_seconds:>10.1f}")


if __name__ == "__main__":
    main()
