"""A toy of each kind that can be added: its file here, and its row as it is written."""

from __future__ import annotations

from typing import NamedTuple


class Toy(NamedTuple):
    """A file of this folder, without its suffix, and what is written into the table of its kind."""

    name: str
    row: str


# By what CONTRIBUTING.md calls the kind.
TOYS = {
    "model family": Toy(
        "unigram",
        """
    "unigram": Family(f"{_MODELS}.unigram:Unigram", None, "Unigram", "trained"),
""",
    ),
    "latent family": Toy(
        "hidden_bits",
        """
    "hidden-bits": Family(
        reference=f"{_MODELS}.hidden_bits:HiddenBits",
        options=None,
        title="Hidden bits",
        kind="latent",
        proposals=("bit-tagger",),
    ),
    "bit-tagger": Family(
        f"{_MODELS}.hidden_bits:BitTagger", None, "Bit tagger", "proposal"
    ),
""",
    ),
    "decoding": Toy(
        "epsilon",
        """
    "epsilon": Decoding(
        "Epsilon",
        "the tokens with q(w) >= `epsilon` (Hewitt et al. 2022)",
        f"{_KINDS}.epsilon",
        {"epsilon": share(0.001)},
    ),
""",
    ),
    "tendency": Toy(
        "digits",
        """
    "digits": Tendency(
        "Digits",
        "share",
        "ks",
        "digits",
        word_class="beyond_perplexity.tendencies.digits:digit_test",
        figure="figure_digits",
    ),
""",
    ),
    "estimator": Toy(
        "median",
        """
    "median": f"{_HERE}.median:Median",
""",
    ),
    "figure": Toy(
        "losses",
        """
    "tendencies/losses": Exhibit(
        "figures.losses:losses", ("training",), "Losses", "The last loss of every model."
    ),
""",
    ),
    "table": Toy(
        "epochs",
        """
    "tendencies/epochs": Exhibit(
        "report.epochs:epochs", ("training",), "Epochs", "How long every model was trained."
    ),
""",
    ),
    "reader": Toy(
        "csv_lines",
        """
    "csv": Format("title and text of a document a line", "csv_lines:read_csv"),
""",
    ),
}
