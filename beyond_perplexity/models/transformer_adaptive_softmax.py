"""The Transformer decoder with adaptive softmax and adaptive input (Baevski & Auli 2019).

The blocks are those of `models.transformer`, the two ends those of `layers.adaptive`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from beyond_perplexity.models.factored import OutputLayer
from beyond_perplexity.models.layers.adaptive import AdaptiveInput, AdaptiveSoftmax, Bands
from beyond_perplexity.models.transformer import Transformer, TransformerOptions


@dataclass(frozen=True)
class AdaptiveTransformerOptions(TransformerOptions):
    """Architecture of an `AdaptiveTransformer`: that of a `Transformer`, and the bands.

    Attributes
    ----------
    cutoffs : tuple of float
        Where the ids are cut into bands of falling frequency: rising ids, or shares of the
        vocabulary where below 1. Cuts beyond the vocabulary are passed over.
    reduction : int
        How many times narrower the vectors of a band are than those of the band before it.
    tie_projections : bool
        The output layer shares the input's projections of all bands but the first.
    """

    cutoffs: tuple[float, ...] = (0.1, 0.4)
    reduction: int = 4
    tie_projections: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        places = list(self.cutoffs)
        if not places or min(places) <= 0 or places != sorted(set(places)):
            raise ValueError(f"cutoffs: are {places}, expected rising numbers above 0")
        if self.reduction < 1 or self.width < self.reduction ** len(places):
            raise ValueError(
                f"reduction: is {self.reduction}, expected at least 1 and a width that can be "
                f"divided by it {len(places)} times"
            )


class AdaptiveTransformer(Transformer):
    """A Transformer whose logits are the normalized log probabilities of an adaptive softmax.

    Parameters and errors are those of `Transformer`, with `AdaptiveTransformerOptions`.
    """

    family: ClassVar[str] = "transformer-adaptive-softmax"
    options_kind: ClassVar[type[TransformerOptions]] = AdaptiveTransformerOptions
    options: AdaptiveTransformerOptions

    def _make_embedding(self) -> nn.Module:
        return AdaptiveInput(self._bands())

    def _make_output(self) -> OutputLayer:
        assert isinstance(self.embedding, AdaptiveInput)
        options = self.options
        return AdaptiveSoftmax(
            self.embedding.bands,
            self.open_vocabulary,
            self.embedding,
            options.tie_weights,
            options.tie_projections,
        )

    def _bands(self) -> Bands:
        options = self.options
        return Bands.cut(self.vocabulary_size, options.cutoffs, options.width, options.reduction)
