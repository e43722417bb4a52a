"""Whether the end of a text counts: in T and log p alike, and in the loss of a training."""

from __future__ import annotations


def check_ends(counted: bool, trained: bool) -> None:
    """Refuse a model whose log p has the end of a text, but not its training loss.

    Raises
    ------
    ValueError
        Names both options.
    """
    if counted and not trained:
        raise ValueError(
            "train_eos: is false, but count_eos is true: log p would have an end that was never "
            "learned; set count_eos to false as well"
        )


def counted_units(end: bool) -> str:
    """Say in words what T counts."""
    return "words and </s>" if end else "words"
