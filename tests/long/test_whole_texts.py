"""A million documents from end to end, with ``make long``: all are read, memory stays bounded.

Property: a word of the last document shows in the result; a tenth of the size says the growth.
"""

import subprocess
import sys

import pandas as pd
import pytest

from beyond_perplexity.storage.fingerprint import ROOT

MILLION = 1_000_000
BASE, PER_DOCUMENT = 0.5e9, 700  # bytes: the interpreter and its libraries; of both texts together
PROGRAM = """
import resource, sys
from beyond_perplexity.__main__ import main

main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
DRAW = """
import sys
import numpy as np

count, path, seed = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
words = np.array(["the", "of", ".", *(f"w{place}" for place in range(3, 50_000))])
rng = np.random.default_rng(seed)
with open(path, "w") as file:
    for first in range(0, count, 10_000):
        ends = np.cumsum(rng.integers(5, 16, min(10_000, count - first)))
        drawn = words[np.minimum(rng.zipf(1.3, ends[-1]), len(words)) - 1]
        texts = [" ".join(part) for part in np.split(drawn, ends[:-1])]
        if first + 10_000 >= count:
            texts[-1] = f"zebra{seed}"
        file.writelines(f"{text}\\n" for text in texts)
"""


def run(program, *arguments):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)


@pytest.mark.parametrize("count", [MILLION // 10, MILLION])
def test_compare_reads_a_million_documents(tmp_path, count):
    paths = [tmp_path / "reference.txt", tmp_path / "samples.txt"]
    for seed, path in enumerate(paths):
        run(DRAW, count, path, seed)
    flags = ["--tokenized", "--permutations", 199, "--bootstrap", 199, "--out", tmp_path / "out"]
    found = run(PROGRAM, "compare", "--reference", paths[0], "--samples", paths[1], *flags)
    for path in paths:
        assert f"{path}: {count:,} documents read, all used\n" in found.stderr
    peak = int(found.stdout.splitlines()[-1])
    print(f"{count:,} documents against as many: {peak / 1e9:.2f} GB")
    assert peak < BASE + PER_DOCUMENT * 2 * count
    table = pd.read_csv(tmp_path / "out" / "tendencies.csv").set_index(["tendency", "measure"])
    counted = table.loc["vocabulary", "value"]
    assert counted["documents"] == counted["documents_reference"] == count
    with paths[1].open() as file:
        types = {word for line in file for word in line.split()}
    assert "zebra1" in types
    assert counted["types"] == len(types)
