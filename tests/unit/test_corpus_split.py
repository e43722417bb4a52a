"""Splits by a hash of the page: uniform, stable, disjoint. Needs nothing.

Oracles: the binomial standard error of the shares; the BLAKE2b digest read as a hexadecimal number.
"""

from __future__ import annotations

import hashlib
import math

import pytest

from beyond_perplexity.corpus.split import SplitShares, hash_uniform
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import parse_options

TITLES = [f"Page {number}" for number in range(20_000)]


def test_hash_is_blake2_as_a_fraction() -> None:
    digest = hashlib.blake2b("Zürich".encode(), digest_size=8).hexdigest()
    assert hash_uniform("Zürich") == pytest.approx(int(digest, 16) / 16**16, abs=2**-53)


def test_shares_are_met_within_four_standard_errors() -> None:
    shares = SplitShares(0.7, 0.1, 0.2)
    chosen = [shares.choose(title) for title in TITLES]
    for split, share in (("train", 0.7), ("valid", 0.1), ("test", 0.2)):
        error = math.sqrt(share * (1 - share) / len(TITLES))
        assert abs(chosen.count(split) / len(TITLES) - share) < 4 * error


def test_an_empty_share_gets_nothing() -> None:
    # 0.7 + 0.3 - 1 may be off by a rounding: nothing may fall behind the last split
    shares = SplitShares(0.7, 0.3, 0.0)
    assert {shares.choose(title) for title in TITLES} == {"train", "valid"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train": 0.5, "valid": 0.1, "test": 0.1}, "sum to 0.7"),
        ({"train": 1.5, "valid": -0.5, "test": 0.0}, "train: is 1.5"),
        ({"train": 0.9, "valid": 0.1, "tset": 0.0}, r"split\.tset: unknown key"),
        ({"train": "most", "valid": 0.1, "test": 0.0}, r"split\.train"),
    ],
)
def test_wrong_shares_are_errors(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_options(SplitShares, values, "split")
