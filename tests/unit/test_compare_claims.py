"""What a comparison of files claims: nothing of equal texts, nothing of a perfect model.

Needs no data: documents are drawn from a Zipf law whose topics change from page to page. Oracles:
a text against itself has p = 1 in every row; texts of one law get no star at a fixed seed; the same
texts without the reading in one vocabulary get stars, so that the tests can fail.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from beyond_perplexity.report.compare import CompareOptions, compare_bodies
from beyond_perplexity.report.comparison_input import Comparison
from beyond_perplexity.tendencies.definitions import compares_texts

TYPES = 3000
STOP = ["the", "of", "and", ",", ".", "a", "12"]
WORDS = np.array([*STOP, *(f"w{k}" for k in range(TYPES - len(STOP)))])
LAW = 1 / np.arange(1, TYPES + 1) ** 1.1
LAW /= LAW.sum()


def pages(seed: int, n: int, topic: float = 3.0) -> tuple[list[str], list[str]]:
    """Draw n pages of 1 to 8 documents; the smaller `topic`, the more a page has words of its own.

    Returns the documents and the pages that they are of.
    """
    rng = np.random.default_rng(seed)
    texts, names = [], []
    for page in range(n):
        weights = LAW * rng.gamma(topic, 1 / topic, TYPES)
        mean = 25 * rng.gamma(8, 1 / 8)
        for _ in range(rng.integers(1, 9)):
            size = 3 + rng.poisson(mean)
            texts.append(" ".join(rng.choice(WORDS, size, p=weights / weights.sum())))
            names.append(f"{seed}/{page}")
    return texts, names


def write(path: Path, texts: list[str], names: list[str] | None = None) -> str:
    rows = [{"text": text} for text in texts]
    if names:
        rows = [row | {"group": name} for row, name in zip(rows, names, strict=True)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def compared(reference: str, samples: str, **more: object) -> Comparison:
    how = {"tokenized": True, "permutations": 399, "bootstrap": 20, **more}
    with compare_bodies(CompareOptions(reference, samples, **how)) as found:
        return found


def starred(measures: pd.DataFrame) -> list[tuple[str, str]]:
    rows = measures[measures["p_adjusted"] < 0.05]
    return list(zip(rows["tendency"], rows["measure"], strict=True))


def check_one_claim_of_each(measures: pd.DataFrame, least: int) -> None:
    assert measures["p_adjusted"].notna().sum() >= least
    assert measures[measures["p_value"].notna()]["measure"].map(compares_texts).all()


@pytest.mark.parametrize("sides", ["none", "both", "reference"])
def test_a_text_does_not_differ_from_itself(sides, tmp_path) -> None:
    texts, names = pages(1, 60)
    reference = write(tmp_path / "a.jsonl", texts, None if sides == "none" else names)
    samples = write(tmp_path / "b.jsonl", texts, names if sides == "both" else None)
    found = compared(reference, samples).measures
    tested = found[found["p_value"].notna()]
    check_one_claim_of_each(found, 6)
    assert tested["p_value"].eq(1).all()
    compared_rows = found[found["measure"].map(compares_texts)]
    assert compared_rows["value_all"].fillna(compared_rows["value"]).eq(0).all()
    expected = {"none": None, "both": 60, "reference": 60}[sides]
    assert found["groups_reference"].dropna().unique().tolist() == [expected] * (sides != "none")


def test_halves_of_one_text_do_not_differ(tmp_path) -> None:
    texts, names = pages(2, 140)
    whole = list(zip(texts, names, strict=True))
    shuffled = [whole[i] for i in np.random.default_rng(3).permutation(len(whole))]
    half = len(whole) // 2
    parts = [[text for text, _ in part] for part in (shuffled[:half], shuffled[half:])]
    files = [write(tmp_path / f"{i}.jsonl", part) for i, part in enumerate(parts)]
    found = compared(*files).measures
    check_one_claim_of_each(found, 10)
    assert starred(found) == []
    assert found["floor"].notna().sum() >= 8


def test_halves_of_pages_differ_unless_they_are_told(tmp_path) -> None:
    """Documents of a page are alike: without groups the test of documents finds the pages."""
    texts, names = pages(4, 120, topic=0.3)
    by_page = [[], []]
    for text, name in zip(texts, names, strict=True):
        by_page[int(name.split("/")[1]) % 2].append((text, name))
    files = []
    for place, part in enumerate(by_page):
        held = [text for text, _ in part], [name for _, name in part]
        files.append(write(tmp_path / f"{place}.jsonl", *held))
    grouped, alone = compared(*files).measures, compared(*files, group_column="").measures
    assert starred(grouped) == []
    assert ("unigram", "tvd") in starred(alone)
    check_one_claim_of_each(grouped, 8)


def in_vocabulary(texts: list[str], known: list[str]) -> list[str]:
    held = set(known)
    return [" ".join(w if w in held else "<unk>" for w in text.split()) for text in texts]


@pytest.mark.parametrize("grouped", [False, True])
def test_a_perfect_model_of_a_closed_vocabulary_gets_no_star(grouped, tmp_path) -> None:
    """Human text with its rare words replaced stands in the place of the model's.

    Documents of the same pages, as in a split by documents; or whole pages against documents of
    other pages, one of each, as in a split by pages.
    """
    training = " ".join(pages(5, 200)[0]).split()
    known = sorted(word for word, count in Counter(training).items() if count >= 8)
    (tmp_path / "vocabulary.txt").write_text("\n".join(known))
    texts, names = pages(6, 90)
    if grouped:
        others, of_page = pages(7, 350)
        written = [others[of_page.index(name)] for name in dict.fromkeys(of_page)]
    else:
        order = np.random.default_rng(8).permutation(len(texts))
        texts, written = ([texts[i] for i in part] for part in np.array_split(order, 2))
    human = write(tmp_path / "human.jsonl", texts, names if grouped else None)
    model = write(tmp_path / "model.jsonl", in_vocabulary(written, known))
    found = compared(human, model, vocabulary=str(tmp_path / "vocabulary.txt"))
    check_one_claim_of_each(found.measures, 8 if grouped else 10)
    assert starred(found.measures) == []
    assert {("unigram", "tvd"), ("unigram", "max_difference")} <= set(starred(found.raw))
    told = found.measures.set_index(["tendency", "measure"])["value"]
    assert told["text", "unknown_share"] > 0.1
    difference = told["text", "unknown_share"] - told["text", "unknown_share_reference"]
    assert abs(difference) < 0.02
