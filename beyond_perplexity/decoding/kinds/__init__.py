"""The distribution of each decoding, a module each; `DecodingKind` says what one has.

A module is imported by the name that its row of `rows.DECODINGS` gives, so that a job depends on
the code of its own decoding alone.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import NamedTuple, Protocol, cast

from torch import Tensor

from beyond_perplexity.decoding.contexts import Contexts
from beyond_perplexity.decoding.kernels import Drawn, Weights, unnormalized
from beyond_perplexity.decoding.options import DecodingOptions
from beyond_perplexity.decoding.rows import decoding_row


class DecodingKind(Protocol):
    """What the module of a decoding has.

    Attributes
    ----------
    LOOKS : bool
        Whether `draw` looks at values on the host, which no recorded step of a GPU can.
    """

    LOOKS: bool

    def draw(self, weights: Weights, uniform: Tensor, options: DecodingOptions) -> Drawn:
        """Draw one token of each row of unnormalized probabilities, which may be overwritten.

        `uniform` is float64, (B,), in [0, 1).
        """

    def keep(self, contexts: Contexts, options: DecodingOptions) -> tuple[Tensor | None, Tensor]:
        """Truncate the distribution of every context of a counted model, once for all.

        Returns the order of the inverse CDF, int64 (N,), contexts in their places (None: as they
        stand), and, in this order, which entries are kept, bool (N,).
        """


@cache
def _load(module: str) -> DecodingKind:
    return cast(DecodingKind, importlib.import_module(module))


def load_kind(name: str) -> DecodingKind:
    """Import the module of a kind of decoding.

    Raises
    ------
    InputError
        When there is no such kind.
    """
    return _load(decoding_row(name).module)


class TokenDraw(NamedTuple):
    """Drawn tokens int64 (B,), their log probability and that under the decoding, float64 (B,)."""

    token: Tensor
    log_prob: Tensor
    log_prob_decoding: Tensor


def draw_tokens(logits: Tensor, uniform: Tensor, options: DecodingOptions) -> TokenDraw:
    """Draw the next token of each row.

    Parameters
    ----------
    logits : Tensor
        float32, (B, V); overwritten.
    uniform : Tensor
        float64, (B,), in [0, 1).
    options : DecodingOptions
        Of any kind; of beam sampling, one draw from the distribution of a beam.
    """
    weights = unnormalized(logits, options.temperature, options.unknown == "exclude")
    token, mass = load_kind(options.kind).draw(weights, uniform, options)  # (B,), (B,)
    log_prob = weights.log_probs(token[:, None])[:, 0]  # (B,)
    log_weight = (log_prob + weights.log_total) / options.temperature  # (B,)
    return TokenDraw(token, log_prob, log_weight - mass.log())
