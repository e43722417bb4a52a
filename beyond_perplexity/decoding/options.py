"""What a decoding is: its kind and its numbers, as given in a config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from beyond_perplexity.options import parse_options

# The numbers that each kind reads; any other number in a config is a mistake, not a default.
_NUMBERS = {
    "ancestral": (),
    "nucleus": ("mass",),
    "typical": ("mass",),
    "top_k": ("k",),
    "min_p": ("p",),
    "beam": ("size",),
}
_DEFAULTS: dict[str, float] = {"mass": 0.9, "k": 50, "p": 0.1, "size": 5}


@dataclass(frozen=True)
class DecodingOptions:
    r"""One way of drawing documents.

    Let q be the model's next-token distribution after `unknown` and `temperature`. A truncated kind
    restricts q to a set of tokens and divides by the set's mass; then it draws.

    Attributes
    ----------
    kind : str
        ``"ancestral"``: draw from q itself.

        ``"nucleus"``: the smallest set of most probable tokens whose mass reaches `mass`
        (Holtzman et al. 2020).

        ``"top_k"``: the `k` most probable tokens (Fan et al. 2018).

        ``"typical"``: the smallest set, taken by rising \|-log q(w) - H(q)\|, whose mass reaches
        `mass`, with H the entropy (Meister et al. 2023, locally typical sampling).

        ``"min_p"``: the tokens with q(w) >= `p` times the largest q (Nguyen et al. 2024).

        ``"beam"``: beam sampling as the tendencies paper describes it; see `decoding.beam`. It is
        not what fairseq or Hugging Face call so.
    mass : float, optional
        For nucleus and typical, in (0, 1]; default 0.9.
    k : int, optional
        For top_k, at least 1; default 50.
    p : float, optional
        For min_p, in (0, 1]; default 0.1.
    size : int, optional
        For beam: the number of beams, at least 1; default 5.
    temperature : float
        q is proportional to p^(1 / temperature); above 0. It comes before the truncation.
    unknown : "keep" or "exclude"
        ``exclude``: ``<unk>`` has probability 0 in q, the rest is renormalized; where the model
        gives all probability to ``<unk>`` (counted models do), it stays.

    Notes
    -----
    Equal probabilities are taken in the order of token ids, and so are distances from the entropy
    that are equal on a grid of 1e-4. A set whose mass is within 1e-6 below
    the asked mass has reached it, and min_p's threshold is lowered by the same share, so that
    float32 rounding does not decide where a probability equals the threshold exactly (which counted
    models make common).
    """

    kind: Literal["ancestral", "nucleus", "top_k", "typical", "min_p", "beam"]
    mass: float | None = None
    k: int | None = None
    p: float | None = None
    size: int | None = None
    temperature: float = 1.0
    unknown: Literal["keep", "exclude"] = "keep"

    def __post_init__(self) -> None:
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            used = name in _NUMBERS[self.kind]
            if value is not None and not used:
                raise ValueError(f"{name}: is not an option of {self.kind}; remove it")
            if value is None and used:
                object.__setattr__(self, name, default)
        for name in ("mass", "p"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1:
                raise ValueError(f"{name}: is {value}, expected 0 < {name} <= 1")
        for name in ("k", "size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: is {value}, expected at least 1")
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature: is {self.temperature}, expected a number above 0")

    @property
    def beam_size(self) -> int:
        """Rows of a batch that one document needs."""
        return self.size or 1


def parse_decoding(values: object, where: str = "decoding") -> DecodingOptions:
    """Read the options of a decoding from JSON.

    Parameters
    ----------
    values : dict
        ``{"kind": ..., ...}``.
    where : str
        The path of the object in the user's file, for the message.

    Raises
    ------
    InputError
        When a key is unknown, superfluous, missing or has a wrong value.
    """
    return parse_options(DecodingOptions, values, where)
