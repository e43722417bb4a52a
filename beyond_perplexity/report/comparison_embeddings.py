"""The part of a comparison of two texts that needs an encoder; imported where one is given."""

from __future__ import annotations

from collections.abc import Callable

from beyond_perplexity.report.comparison_input import Body, CompareOptions
from beyond_perplexity.semantics.evaluators.contract import encoder_of, named_evaluator
from beyond_perplexity.tendencies.definitions import MeasureRow, SensitivityOptions
from beyond_perplexity.tendencies.embedded_documents import embedded_pair
from beyond_perplexity.tendencies.embedding_measures import rows_of_pair
from beyond_perplexity.tendencies.tokens import TextView

_SHIFT_PAIRS = 100  # of samples, that the smallest shift is found by


class EmbeddingComparison:
    """Compares documents by their vectors; the encoder is loaded at once: errors come first."""

    def __init__(self, options: CompareOptions) -> None:
        self._options, self._most = options, options.most_embedded()
        self._evaluator = named_evaluator(str(options.embedding))
        self._encoder = encoder_of(self._evaluator)

    @property
    def title(self) -> str:
        """What the encoder is called, and its weights' hash."""
        held = self._evaluator.describe()
        return f"{held['title']} (SHA-256 {str(held['sha256'])[:12]}…)"

    def rows(
        self, reference: Body, samples: Body, view: TextView, say: Callable[[str], None]
    ) -> list[MeasureRow]:
        """Compare two texts as they are read in a view; see `embeddings.measures`."""
        say(f"embedding {self._most:,} documents of each text at most")
        options = self._options
        pair = embedded_pair(
            (reference.files, samples.files),
            (reference.statistics.n_documents, samples.statistics.n_documents),
            (reference.groups, samples.groups),
            view.batch,
            self._most,
            options.seed,
            self._encoder,
        )
        how = SensitivityOptions(pairs=_SHIFT_PAIRS)
        return rows_of_pair(pair, options.measurement(), how, options.seed)
