"""The decodings: a row says all that the rest of the house knows of one.

Nothing heavy is imported here: plans and figures read the rows too. A row adds nothing to the code
fingerprint of jobs: what a job uses of it is in its parameters, and its module is named to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Rows

MOST_KEPT = 100_000  # tokens of a set, beams

_HERE = "beyond_perplexity.decoding"


class Number(NamedTuple):
    """An option of a decoding: its type, default, and which values it takes, also in words."""

    kind: type[int] | type[float]
    default: float
    words: str
    expected: str
    fits: Callable[[float], bool]


def share(default: float) -> Number:
    """Describe an option that is a share."""
    return Number(float, default, "in (0, 1]", "0 < {name} <= 1", lambda value: 0 < value <= 1)


def count(default: int) -> Number:
    """Describe an option that is a count."""
    words = f"from 1 to {MOST_KEPT:,}"
    return Number(int, default, words, words, lambda value: 1 <= value <= MOST_KEPT)


class Decoding(NamedTuple):
    """What is known of a decoding.

    Attributes
    ----------
    title : str
        What figures and tables call it.
    words : str
        What it does, for the documentation of the configuration.
    module : str
        Has its distribution; see `sampling.DecodingKind`.
    numbers : mapping of str to Number
        Its options besides those that all have. Two decodings may share one, each with a default.
    beam : bool
        Whether it is beam sampling from that distribution, with `size` beams.
    """

    title: str
    words: str
    module: str
    numbers: Mapping[str, Number] = MappingProxyType({})
    beam: bool = False


DECODINGS: Rows[Decoding] = {
    "ancestral": Decoding("Ancestral", "draw from q itself", f"{_HERE}.ancestral"),
    "nucleus": Decoding(
        "Nucleus",
        "the smallest set of most probable tokens whose mass reaches `mass` (Holtzman et al. 2020)",
        f"{_HERE}.nucleus",
        {"mass": share(0.9)},
    ),
    "beam": Decoding(
        "Beam",
        "beam sampling with `size` beams as the tendencies paper describes it; see "
        "`decoding.beam`. It is not what fairseq or Hugging Face call so",
        f"{_HERE}.ancestral",
        {"size": count(5)},
        beam=True,
    ),
    "top_k": Decoding(
        "Top-k",
        "the `k` most probable tokens (Fan et al. 2018)",
        f"{_HERE}.top_k",
        {"k": count(50)},
    ),
    "typical": Decoding(
        "Typical",
        r"the smallest set, taken by rising \|-log q(w) - H(q)\|, whose mass reaches `mass`, with "
        "H the entropy (Meister et al. 2023, locally typical sampling)",
        f"{_HERE}.typical",
        {"mass": share(0.9)},
    ),
    "min_p": Decoding(
        "Min-p",
        "the tokens with q(w) >= `p` times the largest q (Nguyen et al. 2024)",
        f"{_HERE}.min_p",
        {"p": share(0.1)},
    ),
}


def decoding_row(kind: str) -> Decoding:
    """Return the row of a kind of decoding, or say which there are."""
    if kind not in DECODINGS:
        raise InputError(f"decoding.kind: is {kind!r}; allowed are {', '.join(DECODINGS)}")
    return DECODINGS[kind]
