"""What a device can do at most: the shapes of a decoding step, timed alone in the same run.

The ceiling of a step is the slower of two times. Arithmetic: each matrix product of the step, with
operands of the same shapes, strides and types, by itself and as fast as it ever was. Bandwidth:
the bytes that the step cannot but move (weights, the filled part of the state, logits out and in)
over the measured rate of a copy.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from beyond_perplexity.models.contract import LanguageModel

PRODUCTS = ("aten.mm.default", "aten.mm.dtype", "aten.addmm.default", "aten.bmm.default")
COPIED = 2**28  # bytes
RECORDED = 20  # calls


def seconds(function: Callable[[], object], device: torch.device, repeats: int = 5) -> float:
    """Return the shortest of several times of a call; on a GPU of many that are launched at once.

    One call that is launched alone takes longer on a GPU than most products of a step.
    """
    if device.type == "cuda":
        return _replayed(function, repeats)
    best = math.inf
    for _ in range(repeats + 1):
        start = clock()
        function()
        best = min(best, clock() - start)
    return best


def _replayed(function: Callable[[], object], repeats: int) -> float:
    """Return the shortest time of a call on a GPU, one of `RECORDED` of a CUDA graph."""
    function()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(RECORDED):
            function()
    best = math.inf
    for _ in range(repeats + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) / 1000 / RECORDED)
    return best


def clock() -> float:
    """Return seconds: of one thread on a CPU its own, which others on the machine hardly change."""
    own = torch.get_num_threads() == 1 and not torch.cuda.is_available()
    return time.process_time() if own else time.perf_counter()


class Products(TorchDispatchMode):
    """Counts the matrix products that are made, by function, shapes, strides and type."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[tuple[Any, ...]] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if str(func) in PRODUCTS:
            operands = [part for part in args if isinstance(part, Tensor)]
            shapes = tuple((tuple(p.shape), p.stride(), p.dtype) for p in operands)
            self.seen[func, shapes] += 1
        return func(*args, **(kwargs or {}))


@dataclass
class Ceiling:
    """The shortest time of a step of R rows: its matrix products, and the bytes that it moves.

    `times` are the shortest so far of each product, in seconds; `copy_rate` is the highest so
    far of a copy, bytes read and written a second.
    """

    rows: int
    products: Counter[tuple[Any, ...]]
    moved: float
    device: torch.device
    times: dict[tuple[Any, ...], float] = field(default_factory=dict)
    copy_rate: float = 0.0

    @classmethod
    @torch.no_grad()  # inference mode would hide the products inside a cell or a layer
    def of(cls, model: LanguageModel, rows: int, length: int) -> Ceiling:
        """Look at a step of rows that all have a prefix of the given length."""
        tokens = torch.full((rows,), 3, device=model.device)  # (R,)
        state = model.initial_state(rows, length + 1)
        for _ in range(length):
            _, state = model.step(tokens, state)
        before = state.tensors() or ()
        with Products() as products:
            logits, after = model.step(tokens, state)
        weights = sum(_size(p) for p in model.parameters())
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding):
                weights -= _size(module.weight)  # read row by row
        # A cache is read and hardly written, other memory is read and written.
        cached = any(old is new for old, new in zip(before, after.tensors() or (), strict=True))
        held = sum(_size(part) for part in before) * (1 if cached else 2)
        return cls(rows, products.seen, weights + held + 2 * _size(logits), model.device)

    @torch.inference_mode()
    def measure(self) -> None:
        """Time the products and a copy; keep what is better than before."""
        for product in self.products:
            function, shapes = product
            operands = [
                torch.empty_strided(shape, stride, dtype=kind, device=self.device).normal_()
                for shape, stride, kind in shapes
            ]
            extra = {"out_dtype": torch.float32} if str(function).endswith(".dtype") else {}
            found = seconds(partial(function, *operands, **extra), self.device)
            self.times[product] = min(found, self.times.get(product, math.inf))
        source = torch.zeros(COPIED // 4, device=self.device)
        target = torch.empty_like(source)
        rate = 2 * COPIED / seconds(lambda: target.copy_(source), self.device)
        self.copy_rate = max(rate, self.copy_rate)

    @property
    def tokens_per_second(self) -> float:
        """The most tokens a second, by the slower of arithmetic and bandwidth."""
        return self.rows / max(self.arithmetic, self.moved / self.copy_rate)

    @property
    def arithmetic(self) -> float:
        """Seconds of all products of a step."""
        return sum(self.times[product] * count for product, count in self.products.items())

    @property
    def limit(self) -> str:
        """What is slower."""
        return "arithmetic" if self.arithmetic > self.moved / self.copy_rate else "bandwidth"


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
