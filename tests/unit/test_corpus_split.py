"""Splits by a hash of the document or page: uniform, stable, disjoint. Needs nothing.

Oracles: the binomial standard error of the shares; the BLAKE2b digest read as a hexadecimal number.
"""

from __future__ import annotations

import hashlib
import math

import pytest

from beyond_perplexity.corpus.split import SplitOptions, hash_uniform
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import parse_options

TITLES = [f"Page {number}" for number in range(20_000)]


def test_hash_is_blake2_as_a_fraction() -> None:
    digest = hashlib.blake2b("Zürich".encode(), digest_size=8).hexdigest()
    assert hash_uniform("Zürich") == pytest.approx(int(digest, 16) / 16**16, abs=2**-53)


def test_shares_are_met_within_four_standard_errors() -> None:
    # by document, of one page too; by page, whatever its text is; without titles
    chosen = SplitOptions("document", 0.7, 0.1, 0.2).choose
    by_page = SplitOptions("page", 0.7, 0.1, 0.2).choose
    texts = TITLES
    for splits in (
        [chosen("Page", text) for text in texts],
        [chosen(title, "text") for title in TITLES],
        [by_page(title, "text") for title in TITLES],
        [by_page("", text) for text in texts],
    ):
        check_shares(splits)


def check_shares(chosen: list[str]) -> None:
    for split, share in (("train", 0.7), ("valid", 0.1), ("test", 0.2)):
        error = math.sqrt(share * (1 - share) / len(TITLES))
        assert abs(chosen.count(split) / len(TITLES) - share) < 4 * error


def test_a_page_is_in_one_split_by_title_alone() -> None:
    options = SplitOptions("page")
    for title in TITLES[:50]:
        assert len({options.choose(title, text) for text in TITLES[:20]}) == 1


def test_by_document_title_and_text_both_decide_and_their_border_counts() -> None:
    options = SplitOptions("document", 0.5, 0.0, 0.5)

    def agreement(pairs: list[tuple[tuple[str, str], tuple[str, str]]]) -> float:
        return sum(options.choose(*a) == options.choose(*b) for a, b in pairs) / len(pairs)

    numbers = range(10_000)
    error = 4 * math.sqrt(0.25 / len(numbers))
    other_title = [((f"A{n}", "x"), (f"B{n}", "x")) for n in numbers]
    other_border = [((f"A{n}", "b c"), (f"A{n}b", " c")) for n in numbers]
    assert agreement(other_title) == pytest.approx(0.5, abs=error)
    assert agreement(other_border) == pytest.approx(0.5, abs=error)
    assert agreement([(one, one) for one, _ in other_title]) == 1
    # a document without a title: the same in either unit
    untitled = [("", f"text {n}") for n in numbers]
    by_page = SplitOptions("page", 0.5, 0.0, 0.5)
    assert all(options.choose(*one) == by_page.choose(*one) for one in untitled)


def test_an_empty_share_gets_nothing() -> None:
    # 0.7 + 0.3 - 1 may be off by a rounding: nothing may fall behind the last split
    shares = SplitOptions("page", 0.7, 0.3, 0.0)
    assert {shares.choose(title, "") for title in TITLES} == {"train", "valid"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train": 0.5, "valid": 0.1, "test": 0.1}, "sum to 0.7"),
        ({"train": 1.5, "valid": -0.5, "test": 0.0}, "train: is 1.5"),
        ({"train": 0.9, "valid": 0.1, "tset": 0.0}, r"split\.tset: unknown key"),
        ({"unit": "paragraph"}, r"split\.unit: is 'paragraph', expected one of 'document', 'page'"),
        ({"train": "most", "valid": 0.1, "test": 0.0}, r"split\.train"),
    ],
)
def test_wrong_shares_are_errors(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_options(SplitOptions, values, "split")
