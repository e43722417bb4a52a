"""Estimation and scoring of n-grams against what one would use instead, side by side in one run.

Run ``python -m benchmarks.ngrams --text train.txt --test valid.txt``. Each estimator is a process
of its own that reads a text and ends with its model on disk, on one core; the table has its seconds
(wall and CPU), its peak of memory, and the perplexity of the test text. Those of ARPA files are all
taken by our scorer, so that "agrees" is a matter of estimation alone.

``--peers PYTHON``: an interpreter that has some of `arpabo`, `kaldingram`, `knlm`, `lambdag` and
`kenlm`; ``--irstlm FOLDER``: where Debian's `irstlm` and its library are (``/usr``, or where
``dpkg -x`` put them). What is not there is left out and said. ``--slow-lines`` gives those in
Python the first lines only, and us too, in a row of our own. Part 2 scores a million n-grams with
ours and with the `kenlm` module, and a few with `nltk.lm`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import numpy as np

from beyond_perplexity.ngrams.arpa import ArpaModel, read_arpa
from beyond_perplexity.ngrams.kneser_ney import score_tokens
from beyond_perplexity.ngrams.sentence_files import UnknownRule, WordIds, read_sentences
from beyond_perplexity.vocabulary import N_SPECIAL

SAME = 1e-4  # relative, of perplexities
SCORED = 1_000_000
ARPABO = """
import sys, arpabo
_, text, out, order = sys.argv
model = arpabo.ArpaBoLM(max_order=int(order), smoothing_method="kneser_ney", unicode_norm=False)
with open(text, encoding="utf-8") as file:
    model.read_corpus(file)
model.compute()
model.write_file(out)
"""
KALDINGRAM = """
import sys
from kaldingram.cli import main
_, text, out, order = sys.argv
main(["train", "--ngram-order", order, "--text", text, "--lm", out])
"""
KNLM = """
import sys
from knlm import KneserNey
_, text, out, order = sys.argv
model = KneserNey(int(order), 4)
for line in open(text, encoding="utf-8"):
    model.train(line.split())
model.optimize()
model.save(out)
"""
KNLM_PERPLEXITY = """
import math, sys
from knlm import KneserNey
_, held, text = sys.argv
model = KneserNey.load(held)
lines = [line.split() for line in open(text, encoding="utf-8")]
total = sum(model.evaluateSent(line) for line in lines)
print(math.exp(-total / sum(len(line) + 1 for line in lines)))
"""
LAMBDAG = """
import sys
from lambdag.language_models import KneserNeyLanguageModel
_, text, out, order = sys.argv
model = KneserNeyLanguageModel(order=int(order), discount=0.75)
for line in open(text, encoding="utf-8"):
    model.fit(line.split())
open(out, "w").write("none")
"""
KENLM = """
import sys, time, kenlm
_, arpa, text = sys.argv
model = kenlm.Model(arpa)
lines = [line.strip() for line in open(text, encoding="utf-8")]
start = time.perf_counter()
total = sum(model.score(line) for line in lines)
print(sum(len(line.split()) + 1 for line in lines) / (time.perf_counter() - start), total)
"""
PACKAGES = {"arpabo": ARPABO, "kaldingram": KALDINGRAM, "knlm": KNLM, "lambdag": LAMBDAG}
NO_ARPA = ("knlm", "lambdag")


def _time(
    command: list[str], environment: Mapping[str, str], limit: float
) -> tuple[float, float, float] | str:
    """Run a command: seconds by the clock and of CPU, and peak of memory in GB; else why not."""
    held = {**os.environ, **environment, "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            ["timeout", str(limit), *command], env=held, stdout=errors, stderr=errors
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        if process.returncode == 124:
            return f"not done after {limit:.0f} s"
        if process.returncode:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            return lines[-1] if lines else f"ended with {process.returncode}"
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e6


def _lines(path: Path, rare: str, count: int | None) -> list[str]:
    """Read lines that are not empty, stripped, with a word in place of <unk>."""
    with path.open(encoding="utf-8") as file:
        kept = (" ".join(line.split()) for line in file if line.strip())
        return [line.replace("<unk>", rare) for line in islice(kept, count)]


def _perplexity(arpa: Path, test: Path) -> float | str:
    """Score a text in a process of its own: what this one holds would count as a child's."""
    command = [
        sys.executable,
        "-m",
        "beyond_perplexity",
        "perplexity",
        "--arpa",
        str(arpa),
        "--json",
    ]
    done = subprocess.run(
        [*command, "--text", str(test), "--unk-as-unknown"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return done.stderr.strip().splitlines()[-1].rpartition("/")[2]
    value = json.loads(done.stdout)["perplexity"]
    return "infinite" if value is None else float(value)


def _row(
    name: str,
    command: list[str],
    arpa: Path | None,
    test: Path,
    given: argparse.Namespace,
    environment: Mapping[str, str] | None = None,
) -> float | str | None:
    """Print a row; return the perplexity."""
    found = _time(command, environment or {}, given.limit)
    if isinstance(found, str):
        print(f"  {name:34s} {found[:120]}", flush=True)
        return None
    seconds, cpu, peak = found
    value = _perplexity(arpa, test) if arpa else "no ARPA file"
    shown = f"{value:.4f}" if isinstance(value, float) else value
    print(f"  {name:34s} {seconds:8.1f} s {cpu:8.1f} s CPU {peak:6.2f} GB   {shown}", flush=True)
    return value


def _ours(text: Path, folder: Path, order: int, suffix: str) -> tuple[list[str], Path]:
    arpa = folder / f"ours{suffix}"
    command = [sys.executable, "-m", "beyond_perplexity", "estimate-ngram", "--order", str(order)]
    return [*command, "--text", str(text), "--arpa", str(arpa)], arpa


def _irstlm(text: Path, folder: Path, given: argparse.Namespace, test: Path) -> None:
    home = Path(given.irstlm)
    tool = home / "lib" / "irstlm" / "bin" / "tlm"
    if not tool.is_file():
        print(f"  irstlm: no {tool}")
        return
    marked, arpa = folder / "marked.txt", folder / "irstlm.arpa"
    lines = text.read_text(encoding="utf-8").splitlines()
    marked.write_text("".join(f"<s> {line} </s>\n" for line in lines), encoding="utf-8")
    libraries = f"{home}/lib/x86_64-linux-gnu:{home}/lib"
    # Its modified Kneser–Ney (msb) refuses texts whose rare words were replaced, as WikiText-2's.
    for method in ("msb", "sb"):
        flags = [f"-tr={marked}", f"-n={given.order}", f"-lm={method}", "-ps=no", f"-o={arpa}"]
        name = f"irstlm (tlm -lm={method})"
        _row(name, [str(tool), *flags], arpa, test, given, {"LD_LIBRARY_PATH": libraries})


def _estimators(given: argparse.Namespace, folder: Path, test: Path) -> Path:
    """Print part 1; return our ARPA file of the whole text."""
    text = folder / "train.txt"
    lines = _lines(Path(given.text), given.rare, None)
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"order {given.order}, {len(lines):,} lines:")
    for suffix in (".arpa.gz", ".arpa"):
        command, arpa = _ours(text, folder, given.order, suffix)
        _row(f"ours ({suffix})", command, arpa, test, given)
    if given.irstlm:
        _irstlm(text, folder, given, test)
    if not given.peers:
        return arpa
    few = folder / "few.txt"
    lines = lines[: given.slow_lines]
    few.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"order {given.order}, the first {len(lines):,} lines:")
    command, small = _ours(few, folder, given.order, "-few.arpa")
    own = _row("ours", command, small, test, given)
    for name, program in PACKAGES.items():
        out = folder / f"{name}.arpa"
        command = [given.peers, "-c", program, str(few), str(out), str(given.order)]
        value = _row(name, command, None if name in NO_ARPA else out, test, given)
        if name == "knlm":
            own_scorer = [given.peers, "-c", KNLM_PERPLEXITY, str(out), str(test)]
            told = subprocess.run(own_scorer, capture_output=True, text=True, check=False)
            print(f"    perplexity by its own scorer: {(told.stdout or told.stderr).strip()[-80:]}")
        if isinstance(value, float) and isinstance(own, float):
            print(f"    {'agrees' if abs(value / own - 1) < SAME else 'does not agree'} with ours")
    return arpa


def _nltk(lines: list[str], order: int) -> float:
    """Score a few n-grams one by one; n-grams a second."""
    from nltk.lm import KneserNeyInterpolated
    from nltk.lm.preprocessing import padded_everygram_pipeline

    words = [line.split() for line in lines[:2000]]
    model = KneserNeyInterpolated(order)
    model.fit(*padded_everygram_pipeline(order, words))
    scored = words[0] * 3
    start = time.perf_counter()
    done = 0
    for place in range(order, len(scored)):
        model.score(scored[place], scored[place - order + 1 : place])
        done += 1
        if time.perf_counter() - start > 20:
            break
    return done / (time.perf_counter() - start)


def _score(held: ArpaModel, path: Path) -> tuple[float, float]:
    """Score a text read before: n-grams a second, and the sum of log10 p."""
    ids = WordIds(held.words[N_SPECIAL:], UnknownRule(unknown=True), grows=False)
    tokens = np.concatenate(list(read_sentences([path], ids)))
    best, total = np.inf, 0.0
    for _ in range(3):
        start = time.perf_counter()
        total = float(score_tokens(held.model, tokens).sum() / np.log(10))
        best = min(best, time.perf_counter() - start)
    return np.count_nonzero(tokens) / best, total


def _scorers(given: argparse.Namespace, folder: Path, arpa: Path) -> None:
    lines = _lines(Path(given.test), given.rare, None)
    while sum(len(line.split()) + 1 for line in lines) < SCORED:
        lines = lines + lines
    path = folder / "scored.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    ours, total = _score(read_arpa(arpa), path)
    print(f"n-grams scored a second, order {given.order} (sum of log10 p):")
    print(f"  ours        {ours:12,.0f} ({total:.2f})")
    if given.peers:
        command = [given.peers, "-c", KENLM, str(arpa), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"  kenlm       {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        else:
            speed, other = map(float, done.stdout.split())
            print(f"  kenlm       {speed:12,.0f} ({other:.2f}); ours {ours / speed:.1f} times")
    slow = _nltk(_lines(Path(given.text), given.rare, 2000), given.order)
    print(f"  nltk.lm     {slow:12,.1f} on 2,000 lines; ours {ours / slow:,.0f} times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    add = parser.add_argument
    add("--text", required=True, help="training text, a sentence a line")
    add("--test", required=True, help="test text")
    add("--order", type=int, default=5)
    add("--rare", default="<UNK>", help="word in place of a literal <unk>")
    add("--peers", help="Python interpreter with other packages")
    add("--irstlm", help="folder of irstlm, such as /usr")
    add("--slow-lines", type=int, help="lines for other packages (default: all)")
    add("--limit", type=float, default=1200, help="seconds of an estimator at most")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        test = folder / "test.txt"
        lines = _lines(Path(given.test), given.rare, None)
        test.write_text("\n".join(lines) + "\n", encoding="utf-8")
        _scorers(given, folder, _estimators(given, folder, test))


if __name__ == "__main__":
    main()
