"""What was read from a model's file: whether it is what the description of the model asks for.

A file may come from anybody. So a description gets no more memory than the file of its weights
accounts for, and tables that are no weights, such as counts, are looked through.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules import module as registration
from torch.overrides import TorchFunctionMode

from beyond_perplexity.errors import InputError

# A layer registers itself, its weights and some modules without any; tied weights stand once.
PARTS_PER_TENSOR = 16
# Masks and tables of positions are made anew, and a weight may be copied while it is made.
NUMBERS_PER_NUMBER = 8
FREE_NUMBERS = 1 << 27

_Built = TypeVar("_Built", bound=nn.Module)
_SIZED = {"empty", "zeros", "ones", "rand", "randn", "full"}


def build_bounded(make: Callable[[], _Built], tensors: Mapping[str, Tensor]) -> _Built:
    """Build a model from a description, in memory that the file of its weights accounts for.

    Parameters
    ----------
    make : callable
        Makes the untrained model.
    tensors : mapping of str to Tensor
        The state dict that was read.

    Returns
    -------
    torch.nn.Module
        Still untrained; its state dict has the names, shapes and kinds of numbers of `tensors`.

    Raises
    ------
    InputError
        When the description asks for much more than the file has, before it gets it. When tensors
        are missing, superfluous, or of another shape or kind of number: names the first and counts
        the others.
    """
    numbers = sum(tensor.numel() for tensor in tensors.values())
    budget = _Budget(NUMBERS_PER_NUMBER * numbers + FREE_NUMBERS)
    with _counted_parts(PARTS_PER_TENSOR * (len(tensors) + 4)), budget:
        model = make()
    wrong = list(_differences(model.state_dict(), tensors))
    if wrong:
        others = f", and {len(wrong) - 1} more like it" if len(wrong) > 1 else ""
        raise InputError(f"{wrong[0]}{others}")
    return model


def _differences(expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> Iterator[str]:
    for name, tensor in expected.items():
        if name not in found:
            yield f"tensor '{name}' is missing"
        elif found[name].shape != tensor.shape:
            shapes = tuple(found[name].shape), tuple(tensor.shape)
            yield f"tensor '{name}' has the shape {shapes[0]}, expected {shapes[1]}"
        elif found[name].is_floating_point() != tensor.is_floating_point():
            yield f"tensor '{name}' is {found[name].dtype}, expected {tensor.dtype}"
    yield from (f"tensor '{name:.80}' belongs to no part" for name in found.keys() - expected)


class _Budget(TorchFunctionMode):
    """Counts the numbers that a model asks for while it is built, before it gets them."""

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self._left = numbers

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        self._left -= _asked_for(getattr(func, "__name__", ""), args, keywords)
        if self._left < 0:
            raise InputError("the description asks for a far larger model than the file holds")
        return func(*args, **keywords)


def _asked_for(name: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> int:
    """Return how many numbers a function of torch makes: of a shape, or out of several tensors."""
    if name == "arange" and all(type(value) is int for value in args):
        return len(range(*args))
    if name in _SIZED:
        shape = keywords.get("size", args)
        shape = shape[0] if shape and isinstance(shape[0], Sequence) else shape
        return math.prod(size for size in shape if type(size) is int)
    tensors = [value for value in args if isinstance(value, Tensor)]
    if name == "repeat":
        return tensors[0].numel() * math.prod(size for size in args[1:] if type(size) is int)
    if len(tensors) < 2:
        return 0
    sizes = zip_longest(*(reversed(tensor.shape) for tensor in tensors), fillvalue=1)
    return math.prod(map(max, sizes))


@contextmanager
def _counted_parts(most: int) -> Iterator[None]:
    """End the making of a model that has more parts than a file of so many tensors can fill."""
    count = 0

    def counted(*_: Any) -> None:
        nonlocal count
        count += 1
        if count > most:
            raise InputError("the description has more layers than the file has tensors for")

    hooks = [
        registration.register_module_parameter_registration_hook(counted),
        registration.register_module_module_registration_hook(counted),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class TableHolder(ABC):
    """A module with tables that are no weights: other numbers than it expects would lead astray."""

    @abstractmethod
    def check_tables(self) -> None:
        """Look through the tables that were read.

        Raises
        ------
        InputError
            Names the table and what is wrong with it.
        """


def check_all_tables(model: nn.Module) -> None:
    """Look through the tables of all parts of a model; see `TableHolder`."""
    for part in model.modules():
        if isinstance(part, TableHolder):
            part.check_tables()


def check_whole(name: str, table: Tensor, low: int, high: int, shape: tuple[int, ...]) -> None:
    """Check a table of whole numbers.

    Parameters
    ----------
    name : str
        What the message calls it.
    table : Tensor
    low, high : int
        Its numbers are at least the one and below the other.
    shape : tuple of int

    Raises
    ------
    InputError
        When it has another shape, numbers of another kind, or one outside.
    """
    if tuple(table.shape) != shape:
        raise InputError(f"table '{name}' has the shape {tuple(table.shape)}, expected {shape}")
    if table.is_floating_point() or table.is_complex() or table.dtype == torch.bool:
        raise InputError(f"table '{name}' holds {table.dtype}, expected whole numbers")
    if table.numel() and (int(table.min()) < low or int(table.max()) >= high):
        raise InputError(
            f"table '{name}' has numbers from {int(table.min())} to {int(table.max())}, expected "
            f"at least {low} and below {high}"
        )


def check_rising(name: str, table: Tensor, *, strictly: bool) -> None:
    """Check that the numbers of a table rise.

    Parameters
    ----------
    name : str
        What the message calls it.
    table : Tensor
        (N,).
    strictly : bool
        No two are equal.

    Raises
    ------
    InputError
        When one does not.
    """
    below = table[1:] <= table[:-1] if strictly else table[1:] < table[:-1]
    if bool(below.any()):
        raise InputError(f"table '{name}' does not rise at place {int(below.nonzero()[0]) + 1}")


def check_offsets(name: str, table: Tensor, groups: int, total: int) -> None:
    """Check where groups begin and the last one ends.

    Parameters
    ----------
    name : str
        What the message calls it.
    table : Tensor
        (G + 1,).
    groups, total : int
        G, and how many things they have together.

    Raises
    ------
    InputError
        When it is none.
    """
    check_whole(name, table, 0, total + 1, (groups + 1,))
    check_rising(name, table, strictly=False)
    if int(table[0]) != 0 or int(table[-1]) != total:
        raise InputError(
            f"table '{name}' goes from {int(table[0])} to {int(table[-1])}, expected 0 to {total}"
        )


def check_log_probs(name: str, table: Tensor, shape: tuple[int, ...], most: float) -> None:
    """Check a table of logarithms of probabilities or weights.

    Parameters
    ----------
    name : str
        What the message calls it.
    table : Tensor
    shape : tuple of int
    most : float
        The largest that it may have; −inf is allowed.

    Raises
    ------
    InputError
        When it has another shape, or a number that is NaN or larger.
    """
    if tuple(table.shape) != shape or not table.is_floating_point():
        raise InputError(
            f"table '{name}' holds {table.dtype} of shape {tuple(table.shape)}, expected floats of "
            f"shape {shape}"
        )
    wrong = ~(table <= most)
    if bool(wrong.any()):
        value = float(table[wrong][0])
        raise InputError(f"table '{name}' has the number {value}, expected at most {most:g}")
