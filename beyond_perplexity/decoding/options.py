"""What a decoding is: its kind and its numbers, as given in a config."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from beyond_perplexity.decoding.rows import DECODINGS, Number, decoding_row
from beyond_perplexity.options import add_fields, parse_options

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


def parse_decoding(values: object, where: str = "decoding") -> DecodingOptions:
    """Read the options of a decoding from ``{"kind": ..., ...}``, which errors call `where`."""
    return parse_options(DecodingOptions, values, where)
