"""What KGLM and its proposals have in common: the graph, and how they read a document.

B instances, T tokens, P positions of an encoder, D the width of its ``token``, d of the graph's
embeddings.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from beyond_perplexity.corpus.latent_instances import TOKENS, CorpusFiles, Instance, InstanceBatch
from beyond_perplexity.invariant_tensors import QUANTUM
from beyond_perplexity.models.kglm.instances import linked_documents
from beyond_perplexity.models.kglm.knowledge_graph import KnowledgeGraph
from beyond_perplexity.models.kglm.latents import LatentHeads, Streams
from beyond_perplexity.models.latent import LatentModule
from beyond_perplexity.vocabulary import Vocabulary


class GraphModule(LatentModule):
    """KGLM and its proposals: the graph that they share and what they read.

    Parameters
    ----------
    vocabulary_size : int
        V.
    architecture : dict
        See `options_kind`.
    graph : dict of str to int
        Sizes of the graph, see `KnowledgeGraph`.

    Raises
    ------
    InputError
        When an option is unknown or wrong.
    """

    heads: LatentHeads

    def __init__(
        self, vocabulary_size: int, architecture: Mapping[str, Any], graph: Mapping[str, int]
    ) -> None:
        super().__init__(vocabulary_size, architecture, {"graph": dict(graph)})

    @property
    def graph(self) -> KnowledgeGraph:
        """The knowledge graph."""
        return self.heads.graph

    @property
    def support(self) -> dict[str, Any]:
        """The entities and edges of the graph, and how long an entity is recent."""
        return self.graph.support

    @abstractmethod
    def encode(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Read documents: what `LatentHeads.split` takes, and the penalty per token.

        Parameters
        ----------
        tokens : Tensor
            int64, (B, T).
        lengths : Tensor
            int64, (B,): how many of them are words.
        """

    def read(self, batch: InstanceBatch) -> Streams:
        """Read each document by itself.

        The positions are rounded up, so that on a CPU no number depends on what else is in the
        batch; see `invariant_tensors`.
        """
        lengths = batch.lengths[TOKENS]  # (B,)
        parts = [
            self.encode(batch.tokens[row : row + 1, :length], lengths[row : row + 1])[0][0]
            for row, length in enumerate(lengths.tolist())
        ]  # (P_b, D + 2 d) each
        hidden = nn.utils.rnn.pad_sequence(parts, batch_first=True)  # (B, P', D + 2 d)
        hidden = functional.pad(hidden, (0, 0, 0, -hidden.shape[1] % QUANTUM))  # (B, P, D + 2 d)
        return self.heads.split(hidden, lengths, keep=True)

    def instances(
        self, corpus: CorpusFiles, split: str, vocabulary: Vocabulary
    ) -> Iterator[Instance]:
        """Read the documents of a split with their latents; see `linked_documents`."""
        return linked_documents(corpus, split, vocabulary, self.graph)
