"""The decoding engine: slots that hold one document each and are refilled as documents end.

S slots, k rows of the model's batch a slot (1, or the number of beams), R = S k rows, V tokens, L
tokens of a document at most, P rooms (`decoding.rooms`). All documents are drained, in order:
taking the first N that end would prefer short ones. A document's random stream is keyed by its id,
and nothing else of a row depends on its neighbours, so that batch and shard size do not change a
text.

On a CPU products of few rows take other kernels than those of many, and fused attention depends on
the row's position in the batch: so slots come in whole `QUANTUM` rows and attention is plain
products. On a GPU a text is reproducible at one batch size, else up to rounding of the logits, and
a step, refill included, is a CUDA graph for every number of rows and bucket of the cache; the host
looks every `interval` steps.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from beyond_perplexity.decoding.options import DecodingOptions
from beyond_perplexity.decoding.rooms import Function, Graphs, Rooms, Window, is_out_of_memory
from beyond_perplexity.errors import InputError
from beyond_perplexity.invariant_tensors import QUANTUM
from beyond_perplexity.models.contract import LanguageModel, State

WINDOW = 64  # random numbers of a document drawn at once, at least
INTERVALS = {"cpu": 16, "cuda": 64}  # steps between two looks of the host

_logger = logging.getLogger(__name__)


class DrawnDocument(NamedTuple):
    """One generated document."""

    doc_id: int
    tokens: np.ndarray  # int32, without ``<s>`` and ``</s>``
    log_prob: float  # the model's, nats, of the tokens and, when finished, ``</s>``
    # Of the decoding's own distribution; NaN for beam sampling, which has none that is tractable
    log_prob_decoding: float
    finished: bool  # else cut at the maximum length


class Engine(ABC):
    """The slots, their refill and the order of output; a subclass says what a step does, and
    `batch_size`, R at most in whole quanta of slots, is halved as often as memory asks for it."""

    rooms: Rooms | None = None
    state: State | None = None  # The model's state of R rows; None: nothing is under way

    def __init__(
        self,
        model: LanguageModel,
        options: DecodingOptions,
        seed: int,
        purpose: str,
        maximum_length: int,
        batch_size: int,
    ) -> None:
        limit = model.context_length
        if limit is not None and maximum_length > limit:
            detail = f"but the model conditions on {limit} tokens at most; give a smaller one"
            raise InputError(f"maximum length: is {maximum_length}, {detail}")
        self.model, self.options = model, options
        self.device, self.maximum_length = model.device, maximum_length
        self._streams = (seed, purpose)
        self.beams = options.beam_size
        self._quantum = QUANTUM // math.gcd(QUANTUM, self.beams)
        self._batch_slots = self._round(max(batch_size // self.beams, 1))
        self._interval = INTERVALS.get(self.device.type, INTERVALS["cpu"])
        self.slots: dict[str, Tensor] = {}
        self._graphs = Graphs.on(self.device)

    def _round(self, slots: int) -> int:
        return -(-slots // self._quantum) * self._quantum

    @property
    def recordable(self) -> bool:
        """All of a step is recorded where graphs are; else just the model's part."""
        return True

    @abstractmethod
    def _blank(self) -> dict[str, Tensor]:
        """Return what a slot holds of a document at its start: (1, ...) each."""

    @abstractmethod
    def _fields(self, rooms: int) -> dict[str, Tensor]:
        """Return what a room keeps of its document: (rooms, ...) each."""

    @abstractmethod
    def _extend(self) -> Tensor:
        """Make one step with all rows; return which slots' documents end, bool, (S,)."""

    @abstractmethod
    def _collect(self, doc_ids: np.ndarray, rooms: Tensor) -> list[DrawnDocument]:
        """Copy the ended documents of the given rooms (N,) to the host."""

    def documents(self, first: int, count: int) -> Iterator[DrawnDocument]:
        """Generate documents in the order of their ids; what ends before an earlier one waits."""
        self._waiting: Iterable[int] = range(first, first + count)
        self._open = count  # documents that the host has not picked up
        early: dict[int, DrawnDocument] = {}
        following = first
        while following < first + count:
            early.update((document.doc_id, document) for document in self._round_trip())
            while following in early:
                yield early.pop(following)
                following += 1
        self._drop()

    @torch.inference_mode()
    def _round_trip(self) -> list[DrawnDocument]:
        """Pick up what has ended, and set the device to work on the next steps meanwhile."""
        documents: list[DrawnDocument] = []
        failure = ""
        try:
            if self.state is None:
                self._start()
            else:
                documents = self._pick_up()
                self._tend()
            self._work()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            failure = str(error).splitlines()[0] if str(error) else "out of memory"
        if failure:  # out of the handler, whose traceback holds on to tensors
            self._retreat(failure)
        return documents

    @property
    def _held(self) -> Rooms:
        assert self.rooms is not None
        return self.rooms

    @property
    def _state(self) -> State:
        assert self.state is not None
        return self.state

    def _start(self) -> None:
        """Set up slots and rooms for what is open, and fill them."""
        slots = self._round(min(self._batch_slots, self._open))
        size = min(2 * slots, self._open)  # P
        self._waiting = waiting = iter(self._waiting)
        steps = max(2 * self._interval, WINDOW // self.beams**2)
        window = Window(*self._streams, size, steps, self.beams**2, self.device)
        self.rooms = Rooms(size, self._fields(size + 1), waiting, window, self.device)
        self._blanks = self._blank()
        blanks = self._blanks.items()
        self.slots = {n: blank.expand(slots, *blank.shape[1:]).clone() for n, blank in blanks}
        self.slots["room"] = torch.full((slots,), size, device=self.device)  # (S,)
        self.slots["alive"] = torch.zeros(slots, dtype=torch.bool, device=self.device)  # (S,)
        self.state = self.model.initial_state(slots * self.beams, self.maximum_length)
        self._set_up_graphs()
        self._longest = 0
        self.rooms.prepare(self._interval)
        self._in_place(self._refill)

    def _set_up_graphs(self) -> None:
        self._graphs.forget()
        if not self._graphs.active:
            return
        if self._state.tensors() is None:
            self._graphs.stop(f"the state of {type(self.model).__name__} does not name its tensors")
        elif not self.recordable:
            rows, size = len(self.slots["room"]) * self.beams, self.model.vocabulary_size
            self.slots["logits"] = torch.empty(rows, size, device=self.device)  # (R, V)

    def _drop(self) -> None:
        self.state, self.slots, self.rooms = None, {}, None
        self._graphs.forget()

    def _retreat(self, failure: str) -> None:
        """Begin the open documents again, in half as many slots."""
        # Slots that no document is left for may still be there.
        slots = len(self.slots.get("room", ())) or self._round(min(self._batch_slots, self._open))
        smaller = self._round(slots // 2)
        rows = slots * self.beams
        if smaller >= slots:
            raise InputError(
                f"out of memory with the smallest batch, {rows} rows ({failure}); give the job "
                "more memory, or ask for a smaller maximum length"
            )
        _logger.warning("out of memory with %d rows (%s): halving them", rows, failure)
        self._batch_slots = smaller
        if self.rooms is not None:
            held = np.sort(self.rooms.items[self.rooms.items >= 0])
            self._waiting = chain(held.tolist(), self._waiting)
        self._drop()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _pick_up(self) -> list[DrawnDocument]:
        """Copy ended documents to the host."""
        rooms = self._held
        ended = rooms.look(self.slots["room"], self.slots["length"])
        if not len(ended):
            return []
        where = torch.from_numpy(ended).to(self.device)  # (N,)
        documents = self._collect(rooms.items[ended], where)
        rooms.clear(ended)
        self._open -= len(documents)
        return documents

    def _tend(self) -> None:
        """Put documents into the free rooms, and the slots in order."""
        if not self._open:
            return
        rooms = self._held
        rooms.prepare(self._interval)
        self._longest = int(rooms.slot_steps.max())
        self._arrange(rooms.slot_steps, rooms.slot_rooms < rooms.none)

    def _arrange(self, lengths: np.ndarray, held: np.ndarray) -> None:
        """Drop free slots once half are free; put like lengths, (S,), together where it pays."""
        state, slots, size = self._state, len(held), self._round(self._open)
        ordered = state.likes_order and self.device.type == "cpu"
        kept = np.arange(slots)
        if 2 * size <= slots:
            kept = np.argsort(~held, kind="stable")[:size]
        if ordered:
            kept = kept[np.argsort(lengths[kept], kind="stable")]
        if np.array_equal(kept, np.arange(slots)):
            return
        where = torch.from_numpy(kept).to(self.device)  # (S',)
        beams = torch.arange(self.beams, device=self.device)  # (k,)
        self.state = state.select((where[:, None] * self.beams + beams).flatten())
        self.slots = {name: tensor[where] for name, tensor in self.slots.items()}
        self._graphs.forget()

    def _work(self) -> None:
        """Make as many steps as there are between two looks of the host."""
        if not self._open:
            return
        alike = sdpa_kernel(SDPBackend.MATH) if self.device.type == "cpu" else nullcontext()
        with alike:  # rows do not depend on each other
            for _ in range(self._interval):
                self.state = self._state.limit(self._longest)
                self._longest = min(self._longest + 1, self.maximum_length - 1)
                make = self._recorded if self.recordable else self._in_place
                make(self._advance)

    def _recorded(self, function: Function) -> None:
        """Change slots and state by a function, from a recording where there can be one."""
        key = (len(self.slots["room"]), self._state.shape())
        self._graphs.run(key, lambda: self._in_place(function))

    def _in_place(self, function: Function) -> None:
        """Call a function and, for recordings, leave all tensors of slots and state in place."""
        if not self._graphs.active:
            function()
            return
        slots, state = dict(self.slots), self._state
        try:
            function()
            pairs = list(zip(state.tensors() or (), self._state.tensors() or (), strict=True))
            pairs += [(tensor, self.slots[name]) for name, tensor in slots.items()]
            for place, value in pairs:
                if place is not value:
                    place.copy_(value)
        finally:  # also when recording failed half-way
            self.slots, self.state = slots, state

    def _advance(self) -> None:
        """Make one step with all rows, and give rooms to the slots that have none then."""
        ended = self._extend()  # (S,)
        self._held.done[self.slots["room"]] = ended
        self.slots["alive"] = self.slots["alive"] & ~ended
        self._refill()

    def _refill(self) -> None:
        slots, rooms = self.slots, self._held
        wanting = ~slots["alive"]  # (S,)
        taken, got = rooms.take(wanting)  # (S,), (S,)
        slots["room"] = torch.where(got, taken, slots["room"].masked_fill(wanting, rooms.none))
        for name, blank in self._blanks.items():
            mask = wanting.view(-1, *[1] * (blank.dim() - 1))  # (S, ...)
            slots[name] = torch.where(mask, blank, slots[name])
        slots["alive"] = slots["alive"] | got
        self.state = self._state.restart(wanting[:, None].expand(-1, self.beams).flatten())

    def _numbers(self) -> Tensor:
        """Return the random numbers of this step, float64, (S, k * k)."""
        return self._held.window.at(self.slots["room"], self.slots["length"])

    def _step_model(self) -> Tensor:
        """Advance the model by the newest token of each row; return logits (R, V)."""
        if self.recordable or not self._graphs.active:
            return self._step_model_now()

        def step() -> None:
            self.slots["logits"] = self._step_model_now()

        self._recorded(step)
        return self.slots["logits"]

    def _step_model_now(self) -> Tensor:
        tokens = self.slots["token"].flatten()  # (R,)
        logits, self.state = self.model.step(tokens, self._state)  # (R, V)
        return logits
