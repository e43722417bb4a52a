"""Choose the engine for a model and a decoding, the precision and the batch size.

Tokens of prompts stand in the place of those that are drawn, so that a model reads them as its own;
they add nothing to log probabilities, and random numbers are those of the document's id and step. S
slots, P rooms, L tokens of a document at most.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from tqdm import tqdm

from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.decoding import beam, sampling
from beyond_perplexity.decoding.engine import DrawnDocument, Engine
from beyond_perplexity.decoding.options import DecodingOptions, decoding_row
from beyond_perplexity.decoding.sampling import SamplingEngine, TokenDraw
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.latent import LatentModel, Simulated
from beyond_perplexity.models.registry import find_engines
from beyond_perplexity.schemas.corpora import TEXT_SAMPLES
from beyond_perplexity.storage.shards import ShardWriter
from beyond_perplexity.vocabulary import BOS, Vocabulary

SIMULATED_AT_ONCE = 256  # documents
ROWS_OF_WRITE = 4096  # documents of a write
MOST_ROWS = {"cpu": 128, "cuda": 1024}  # more are not faster
SHARE = 0.7  # of the free memory: allocators waste some, and other work wants some
VOCABULARY_BYTES = 32  # of a row and id: logits, weights, and what sorting or drawing makes of them
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def _available_on_host() -> int:
    """Return the bytes that the host could still give."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _used_by_process() -> int:
    """Return the resident bytes of this process; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def free_memory(device: torch.device, memory: int | None = None) -> int:
    """Return the bytes that a GPU or the host has free, of the host at most what is left of
    `memory`, bytes that this process may hold in all, as a job's limit."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + cached)
    available = _available_on_host()
    return available if memory is None else min(available, max(memory - _used_by_process(), 0))


def bytes_per_row(model: LanguageModel, maximum_length: int) -> int:
    """Return about what a row of a batch needs: its state, measured after a step, and logits."""
    with torch.inference_mode():
        first = torch.full((1,), BOS, device=model.device)  # (1,)
        _, state = model.step(first, model.initial_state(1, maximum_length))
    return state.row_bytes() + VOCABULARY_BYTES * model.vocabulary_size


def fitting_rows(
    model: LanguageModel, maximum_length: int, most: int, memory: int | None = None
) -> int:
    """Choose the rows of a batch by the free memory: `most`, halved until they fit."""
    room = SHARE * free_memory(model.device, memory) / bytes_per_row(model, maximum_length)
    rows = most
    while rows > 1 and rows > room:
        rows //= 2
    return rows


def set_precision(model: LanguageModel, precision: str = "auto") -> str:
    """Put a model's weights into a precision for decoding and return it; logits stay float32.

    ``"auto"`` is bfloat16 on a GPU alone: on a CPU it may be several times faster, but its products
    are rounded to 8 bits, and CPUs round differently. Samples and log probabilities are those of
    the rounded model; a counted one has no weights to round.
    """
    if precision == "auto":
        precision = "bfloat16" if model.device.type == "cuda" else "float32"
    if precision not in PRECISIONS:
        raise InputError(f"precision: is {precision!r}, expected auto, float32 or bfloat16")
    model.to(PRECISIONS[precision])
    return precision


def make_engine(
    model: LanguageModel,
    options: DecodingOptions,
    seed: int,
    purpose: str,
    maximum_length: int,
    batch_size: int | str = "auto",
    memory: int | None = None,
) -> Engine:
    """Build the engine that draws documents from a model; ``"auto"`` takes as many rows as pay off
    and fit into the free memory, and no size changes a text, but for rounding on a GPU."""
    own = find_engines(model.config["family"])
    for name, value in (("maximum length", maximum_length), ("batch size", batch_size)):
        if value != "auto" and (not str(value).isdigit() or int(value) < 1):
            raise InputError(f"{name}: is {value!r}, expected a number above 0")
    if batch_size != "auto":
        rows = int(batch_size)
    elif own:
        rows = own.DEFAULT_BATCH
    else:
        most = MOST_ROWS.get(model.device.type, MOST_ROWS["cpu"])
        length = min(maximum_length, model.context_length or maximum_length)
        rows = fitting_rows(model, length, most, memory)
    kind: type[Engine] = (own or sampling).SamplingEngine
    if decoding_row(options.kind).beam:
        kind = (own or beam).BeamEngine
    return kind(model, options, seed, purpose, maximum_length, rows)


def generate(
    model: LanguageModel,
    options: DecodingOptions,
    *,
    seed: int,
    purpose: str,
    first: int,
    count: int,
    maximum_length: int,
    batch_size: int | str = "auto",
    memory: int | None = None,
) -> Iterator[DrawnDocument]:
    """Draw documents from the id `first` on, in the order of their ids; see `make_engine`."""
    if first < 0 or count < 0:
        raise InputError(f"first, count: are {first} and {count}, expected no negative number")
    machine = make_engine(model.eval(), options, seed, purpose, maximum_length, batch_size, memory)
    return machine.documents(first, count)


def simulate_texts(
    model: LatentModel,
    vocabulary: Vocabulary,
    options: DecodingOptions,
    purpose: str,
    *,
    seed: int,
    first: int,
    count: int,
    maximum_length: int,
) -> Iterator[Simulated]:
    """Draw documents (x, z) ~ p of a model with latent variables, cut at `maximum_length` words, by
    ancestral sampling alone: others would change p(x), a sum over latents."""
    if not options.ancestral:
        raise InputError(
            f"decoding: is {options.given()}, but a model with latent variables writes by "
            "ancestral sampling alone; name such a decoding, without a temperature"
        )
    with torch.inference_mode():
        for start in range(first, first + count, SIMULATED_AT_ONCE):
            numbers = range(start, min(start + SIMULATED_AT_ONCE, first + count))
            yield from model.simulate(seed, purpose, numbers, maximum_length, vocabulary)


def to_table(documents: Sequence[DrawnDocument | Simulated], vocabulary: Vocabulary) -> pa.Table:
    """Turn documents into rows of ``samples``; ``n_tokens`` counts without ``</s>``, of a latent
    model words, whose log p, a sum over all latents, is null."""
    drawn = [one for one in documents if isinstance(one, DrawnDocument)]
    rows: list[tuple[Any, ...]] = []
    for one, text in zip(drawn, vocabulary.decode([one.tokens for one in drawn]), strict=True):
        own = None if math.isnan(one.log_prob_decoding) else one.log_prob_decoding
        rows.append((one.doc_id, text, len(one.tokens), one.log_prob, own, one.finished))
    for made in documents:
        if isinstance(made, Simulated):
            held = made.instance.instance_id, " ".join(made.words), len(made.words)
            rows.append((*held, None, None, not made.truncated))
    return pa.table([*zip(*rows, strict=True)], TEXT_SAMPLES)


def write_samples(
    path: str | os.PathLike[str],
    documents: Iterable[DrawnDocument | Simulated],
    count: int,
    vocabulary: Vocabulary,
    record: dict[str, object],
) -> None:
    """Write a shard of `count` samples in the order of their ids, with a progress bar."""
    stream = iter(tqdm(documents, total=count, unit="document", mininterval=2))
    with ShardWriter(path, TEXT_SAMPLES, record) as writer:
        while batch := list(islice(stream, ROWS_OF_WRITE)):
            writer.write(to_table(batch, vocabulary))


AT_ONCE = 128  # of a step; halved where the memory asks for it


class _Continuing(SamplingEngine):
    """An engine whose documents 0 to N - 1 begin with the tokens of `given`, (N, L), then -1."""

    given: Tensor

    def _fields(self, rooms: int) -> dict[str, Tensor]:
        begun = torch.full((rooms, self.maximum_length), -1, device=self.device)  # (P + 1, L)
        return super()._fields(rooms) | {"begun": begun}

    def _work(self) -> None:
        items = torch.from_numpy(np.maximum(self._held.items, 0)).to(self.device)  # (P,)
        self._held.fields["begun"][:-1].copy_(self.given[items])
        super()._work()

    def next_tokens(self) -> TokenDraw:
        """Draw the next token of every slot, or take that of its prompt."""
        drawn, slots = super().next_tokens(), self.slots
        begun = self._held.fields["begun"][slots["room"], slots["length"]]  # (S,)
        mine = begun < 0  # (S,)
        token = torch.where(mine, drawn.token, begun)
        log_probs = (torch.where(mine, one, 0.0) for one in drawn[1:])
        return TokenDraw(token, *log_probs)


def written_behind(
    model: LanguageModel,
    vocabulary: Vocabulary,
    options: DecodingOptions,
    prompts: Sequence[str],
    *,
    seed: int,
    purpose: str,
    maximum_length: int,
) -> list[str]:
    """Draw a continuation of each prompt, of at most so many tokens with it: its text alone."""
    if decoding_row(options.kind).beam:
        wrong = f"is {options.given()}, which draws whole documents"
        raise InputError(f"decoding: {wrong}; name one that draws a token at a time")
    ids = vocabulary.encode(prompts)
    longest = max(map(len, ids), default=0)
    if longest >= maximum_length:
        raise InputError(f"maximum length: is {maximum_length}, but a prompt has {longest} tokens")
    given = np.full((len(ids), maximum_length), -1, np.int64)
    for row, own in zip(given, ids, strict=True):
        row[: len(own)] = own
    own_engines = find_engines(model.config["family"]) or sampling
    held = {"given": torch.from_numpy(given).to(model.device)}
    kind = type("Continuing", (_Continuing, own_engines.SamplingEngine), held)
    engine = kind(model.eval(), options, seed, purpose, maximum_length, AT_ONCE)
    drawn = engine.documents(0, len(ids))
    return vocabulary.decode([one.tokens[len(own) :] for one, own in zip(drawn, ids, strict=True)])


def cut_prompts(
    texts: Sequence[str], tokens: int, vocabulary: Vocabulary
) -> tuple[list[str], list[str]]:
    """Cut texts behind so many words: prompts, and their continuations as a model's are cleaned."""
    words = [text.split() for text in texts]
    prompts = [" ".join(own[:tokens]) for own in words]
    rests = [" ".join(own[tokens:]) for own in words]
    cleaning = vocabulary.describe().get("cleaning")
    return prompts, Preprocessing.from_config(cleaning).apply(rests) if cleaning else rests
