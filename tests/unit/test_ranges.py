"""Many numbered files as few words, and back.

Oracle: Bash's brace expansion, and that what is written is read again.
"""

from __future__ import annotations

import argparse
import subprocess

import pytest

from beyond_perplexity.storage.shards import FileRanges, as_ranges, from_ranges

SHARDS = [f"samples/m/d/{shard:05d}.parquet" for shard in range(20_000)]


def test_thousands_of_shards_are_one_word_and_come_back() -> None:
    assert as_ranges(SHARDS) == ["samples/m/d/{00000..19999}.parquet"]
    assert from_ranges(as_ranges(SHARDS)) == SHARDS


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["a/00000.parquet"], ["a/00000.parquet"]),
        (["a/1.txt", "a/2.txt", "b/3.txt"], ["a/{1..2}.txt", "b/3.txt"]),
        (["a/9", "a/10", "a/11"], ["a/9", "a/{10..11}"]),  # of another width
        (["a/2.x", "a/1.x", "a/1.x"], ["a/2.x", "a/1.x", "a/1.x"]),  # not following
        (["a/1.x", "a/2.y"], ["a/1.x", "a/2.y"]),
        (["a/00000-00008.p", "a/00000-00009.p"], ["a/00000-{00008..00009}.p"]),
        (["a/{1..2}.x", "x y/$1.z", "x y/$2.z"], ["a/{1..2}.x", "x y/${1..2}.z"]),
        ([], []),
    ],
)
def test_what_follows_is_one_word(files: list[str], words: list[str]) -> None:
    assert as_ranges(files) == words
    if "{" not in "".join(files):
        assert from_ranges(words) == files


def test_a_range_stands_for_what_bash_makes_of_it() -> None:
    words = ["a/{007..012}.parquet", "b/{3..5}", "c/{98..100}.x", "d/{0008..0010}"]
    expanded = subprocess.run(
        ["bash", "-c", f"echo {' '.join(words)}"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert from_ranges([words[0], words[1], words[3]]) == [x for x in expanded if "c/" not in x]
    assert from_ranges([words[2]]) == [words[2]]  # never written: its ends are of two widths


def test_a_file_that_is_called_like_a_range_is_itself(tmp_path) -> None:
    file = tmp_path / "{1..3}.parquet"
    file.touch()
    assert from_ranges([str(file)]) == [str(file)]


def test_an_option_takes_both(tmp_path) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", nargs="+", action=FileRanges)
    given = parser.parse_args(["--files", "a/{0..1}.x", "b"])
    assert given.files == ["a/0.x", "a/1.x", "b"]
