"""Small models: of every neural family, and one whose documents can be enumerated exactly."""

import numpy as np
import torch

from beyond_perplexity.models import contract, registry

BOS, EOS = 0, 1
FAMILIES = {
    "cnn": {"layers": 3, "embedding_size": 32, "width": 64},
    "gru": {"layers": 2, "embedding_size": 32, "hidden_size": 64},
    "lstm": {"layers": 2, "embedding_size": 32, "hidden_size": 64},
    "rnn": {"embedding_size": 32, "hidden_size": 64, "classes": 10},
    "transformer": {"layers": 2, "width": 64, "heads": 2, "feedforward_size": 128},
    "transformer-adaptive-softmax": {"layers": 1, "width": 64, "heads": 2},
}
TINY = {
    "cnn": {"layers": 2, "embedding_size": 16, "width": 32},
    "gru": {"layers": 1, "embedding_size": 16, "hidden_size": 32},
    "lstm": {"layers": 2, "embedding_size": 16, "hidden_size": 32},
    "rnn": {"embedding_size": 16, "hidden_size": 32, "classes": 4},
    "transformer": {"layers": 2, "width": 32, "heads": 2, "feedforward_size": 64},
    "transformer-adaptive-softmax": {"layers": 1, "width": 32, "heads": 2},
}


TINIEST = {"embedding_size": 4, "hidden_size": 4}


def make(family, architecture=None, size=20, open_vocabulary=False, seed=0, noise=0.0):
    """Build a model; with noise, so that norms, biases and lengths matter too."""
    torch.manual_seed(seed)
    own = FAMILIES[family] if architecture is None else architecture
    model = registry.build({"family": family, "architecture": own}, size, open_vocabulary).eval()
    for parameter in model.parameters() if noise else ():
        parameter.data += noise * torch.randn_like(parameter)
    return model


def prefixes(rows=3, length=9, size=20):
    """Draw tokens of rows that begin with <s>."""
    tokens = torch.randint(3, size, (rows, length), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = BOS
    return tokens


def same(a, b):
    return len(a) == len(b) and all(
        x.doc_id == y.doc_id
        and np.array_equal(x.tokens, y.tokens)
        and np.array_equal(x[2:], y[2:], equal_nan=True)
        for x, y in zip(a, b, strict=True)
    )


@torch.inference_mode()
def rescored(model, document):
    """Give log p of a generated document by the parallel pass."""
    tokens = torch.tensor([[BOS, *document.tokens.tolist(), EOS]])
    scores = model(tokens[:, :-1]).double().log_softmax(-1)[0]
    steps = scores.gather(1, tokens[0, 1:, None])[:, 0]
    return float(steps.sum() if document.finished else steps[:-1].sum())


class LastToken(contract.State):
    """Nothing to remember but how many steps were made: the table reads the newest token."""

    def __init__(self, steps):
        self.steps = steps

    def select(self, rows):
        return LastToken(self.steps[rows])

    def reset(self, rows):
        return LastToken(self.steps.index_fill(0, rows, 0))


class TableModel(contract.LanguageModel):
    """Log probabilities (positions, V, V): of the next token given the position and the newest one.

    Past the last position the last one holds.
    """

    def __init__(self, table):
        super().__init__()
        self.table = torch.nn.Parameter(table.float(), requires_grad=False)
        self.vocabulary_size = table.shape[-1]

    @classmethod
    def random(cls, size=5, positions=3, seed=0):
        """Draw a table; at its last position EOS is certain, so that documents are few."""
        generator = torch.Generator().manual_seed(seed)
        logits = 1.5 * torch.randn(positions, size, size, generator=generator)
        logits[:, :, BOS] = -torch.inf
        logits[-1] = -torch.inf
        logits[-1, :, EOS] = 0
        return cls(logits.log_softmax(-1))

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1]).clamp(max=len(self.table) - 1)
        return self.table[places[None], tokens]

    def initial_state(self, batch_size, maximum_length):
        return LastToken(torch.zeros(batch_size, dtype=torch.int64))

    def step(self, tokens, state):
        assert isinstance(state, LastToken)
        logits = self.table[state.steps.clamp(max=len(self.table) - 1), tokens]
        return logits, LastToken(state.steps + 1)

    @property
    def config(self):
        return {"family": "table"}


def Fixed(probabilities):  # noqa: N802 (a class to those who use it)
    """Make a model whose every next token has the same distribution, whatever came before."""
    row = torch.tensor(probabilities).log()
    return TableModel(row.expand(1, len(row), -1))
