"""The decodings, and the options of one, as given in a config: its kind and its numbers.

A row says all that the other packages know of a decoding; nothing heavy is imported. It adds
nothing to the code fingerprint of jobs: these have what they use of it in their parameters, and its
module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Rows, add_fields, parse_options

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
    """What is known of a decoding."""

    title: str  # what figures and tables call it
    words: str  # what it does, for the documentation of the configuration
    module: str  # has its distribution; see `sampling.DecodingKind`
    # Its options besides those that all have. Two decodings may share one, each with a default.
    numbers: Mapping[str, Number] = MappingProxyType({})
    beam: bool = False  # whether it is beam sampling from that distribution, with `size` beams


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


_Class = TypeVar("_Class")


def _numbers() -> dict[str, dict[str, Number]]:
    """Return every option that some kinds have, by kind."""
    found: dict[str, dict[str, Number]] = {}
    for kind, row in DECODINGS.items():
        for name, number in row.numbers.items():
            found.setdefault(name, {})[kind] = number
    return found


def _field_of_rows(name: str, numbers: dict[str, Number]) -> str:
    owners = " and ".join(numbers)
    number = next(iter(numbers.values()))
    defaults = {kind: number.default for kind, number in numbers.items()}
    if len(set(defaults.values())) > 1:
        default = ", ".join(f"{value} ({kind})" for kind, value in defaults.items())
    else:
        default = str(number.default)
    return (
        f"{name} : {number.kind.__name__}, optional\n"
        f"        For {owners}, {number.words}; default {default}."
    )


def _with_rows(kind: type[_Class]) -> type[_Class]:
    """Add the kinds and their numbers, from the rows; a number that is not given is None."""
    numbers = _numbers()
    fields: dict[str, tuple[Any, Any]] = {
        "kind": (Literal[tuple(DECODINGS)], dataclasses.MISSING),
        **{name: (next(iter(held.values())).kind | None, None) for name, held in numbers.items()},
    }
    kinds = (f'``"{name}"``: {row.words}.' for name, row in DECODINGS.items())
    words = {
        "kinds": "\n\n        ".join(kinds),
        "numbers": "\n    ".join(_field_of_rows(name, held) for name, held in numbers.items()),
    }
    return add_fields(kind, fields, words)


@dataclass(frozen=True)
@_with_rows
class DecodingOptions:
    r"""One way of drawing documents.

    Let q be the model's next-token distribution after `unknown` and `temperature`. A truncated kind
    restricts q to a set of tokens and divides by the set's mass; then it draws.

    Attributes
    ----------
    kind : str
        <kinds>
    temperature : float
        q is proportional to p^(1 / temperature); above 0. It comes before the truncation.
    unknown : "keep" or "exclude"
        ``exclude``: ``<unk>`` has probability 0 in q, the rest is renormalized; where the model
        gives all probability to ``<unk>`` (counted models do), it stays.
    <numbers>

    Notes
    -----
    Equal probabilities are taken in the order of token ids, and so are distances from the entropy
    that are equal on a grid of 1e-4. A set whose mass is within 1e-6 below
    the asked mass has reached it, and min_p's threshold is lowered by the same share, so that
    float32 rounding does not decide where a probability equals the threshold exactly (which counted
    models make common).
    """

    kind: str
    temperature: float = 1.0
    unknown: Literal["keep", "exclude"] = "keep"

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return a number of the kind."""

    def __post_init__(self) -> None:
        own = decoding_row(self.kind).numbers
        for name in _numbers():
            value = getattr(self, name)
            if value is not None and name not in own:
                raise ValueError(f"{name}: is not an option of {self.kind}; remove it")
        for name, number in own.items():
            value = getattr(self, name)
            if value is None:
                object.__setattr__(self, name, number.default)
            elif not number.fits(value):
                expected = number.expected.format(name=name)
                raise ValueError(f"{name}: is {value}, expected {expected}")
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature: is {self.temperature}, expected a number above 0")

    @property
    def beam_size(self) -> int:
        """Rows of a batch that one document needs."""
        return int(self.size) if decoding_row(self.kind).beam else 1

    @property
    def ancestral(self) -> bool:
        """Whether it draws from the model's own distribution, and so as models of latents do."""
        cuts_nothing = not decoding_row(self.kind).numbers
        return cuts_nothing and self.temperature == 1.0 and self.unknown == "keep"

    def given(self) -> dict[str, object]:
        """Return all values that the kind uses, defaults included; `parse_decoding` takes them."""
        values = dataclasses.asdict(self)
        return {name: value for name, value in values.items() if value is not None}


ANCESTRAL = DecodingOptions("ancestral")


def parse_decoding(values: object, where: str = "decoding") -> DecodingOptions:
    """Read the options of a decoding from ``{"kind": ..., ...}``, which errors call `where`."""
    return parse_options(DecodingOptions, values, where)
