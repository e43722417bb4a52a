"""What a model predicts in sentences: texts that can be compared with what was written.

A model is asked word by word in its document, with the context that its perplexity has, and to go
on after the first words of a sentence; an external one reads the corpus' tokens too. A text is
padded to a width that its own length decides, and batches have whole quanta of rows: on a CPU no
prediction depends on the batch, shard or order that a text is in.

N texts, n tokens of a text, S draws at each position, B or R rows, T steps, V ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.corpus.sentences import CutDocument, sentence_item
from beyond_perplexity.decoding.kernels import pick, unnormalized
from beyond_perplexity.errors import InputError
from beyond_perplexity.invariant_tensors import QUANTUM, round_up
from beyond_perplexity.models import likelihoods
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.factored import chosen_log_probs
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.semantics import PREDICTIONS
from beyond_perplexity.semantics.measures import PredictionOptions
from beyond_perplexity.vocabulary import BOS, EOS, SPECIAL_TOKENS, UNK, ClosedVocabulary, Vocabulary


class NextWords(NamedTuple):
    """What a model expects at every position of a text, given the true tokens before it."""

    # int32, (n,): the argmax token, that of the lowest id among equals; ``<unk>`` where the
    # model gives nothing a probability, as a trigram after words that it has not seen
    best: np.ndarray
    drawn: np.ndarray  # int32, (n, S): independent draws; ``<unk>`` likewise
    log_prob: np.ndarray  # float64, (n,): of the true token, nats


# A window, and the position in its text of the first prediction that counts.
_Part = tuple[likelihoods.ScoreWindow, int]


@torch.no_grad()
def predict_tokens(
    model: LanguageModel,
    texts: Sequence[np.ndarray],
    numbers: Sequence[np.ndarray],
    batch_positions: int = likelihoods.LOGIT_ROWS,
) -> list[NextWords]:
    """Predict every token of texts, int32 (n,), without ``<s>`` and ``</s>``, in the perplexity's
    windows; draws are by `numbers` in [0, 1), float64 (n, S)."""
    context, stride = likelihoods.check_window(model, None, None)
    results = [
        NextWords(np.empty(len(u), np.int32), np.empty(u.shape, np.int32), np.empty(len(u)))
        for u in numbers
    ]

    def parts() -> Iterator[tuple[int, _Part]]:
        for text, ids in enumerate(texts):
            first = 0
            for window in likelihoods.cut_windows(text, ids, context, stride):
                yield likelihoods.window_width(window, context), (window, first)
                first += window.counted

    for width, held in likelihoods.full_batches(parts(), batch_positions):
        _run(model, held, width, numbers, results)
    return results


def _run(
    model: LanguageModel,
    parts: Sequence[_Part],
    width: int,
    numbers: Sequence[np.ndarray],
    results: Sequence[NextWords],
) -> None:
    """Predict the tokens of a batch, the last row repeated up to a whole number of quanta."""
    inputs = np.full((len(parts), width), EOS, np.int64)
    # Of predictions that count: positions, true tokens, numbers.
    flat, targets, uniform = [], [], []
    owners: list[tuple[NextWords, slice]] = []  # and where they go
    for row, (window, first) in enumerate(parts):
        text, size = window.document, len(window.tokens) - 1
        inputs[row, :size] = window.tokens[:-1]
        count = min(window.counted, len(results[text].best) - first)  # not </s>
        own, start = slice(first, first + count), row * width + size - window.counted
        flat.append(np.arange(start, start + count))
        targets.append(window.tokens[-window.counted :][:count])
        uniform.append(numbers[text][own])
        owners.append((results[text], own))
    positions = np.concatenate(flat)
    if not len(positions):
        return
    inputs = np.pad(inputs, ((0, -len(parts) % QUANTUM), (0, 0)), mode="edge")
    found = _choose_all(model, inputs, positions, np.concatenate(targets), np.concatenate(uniform))
    cuts = np.cumsum([len(part) for part in flat])[:-1]
    parted = zip(*(np.split(column, cuts) for column in found), strict=True)
    for (words, own), values in zip(owners, parted, strict=True):
        for held, value in zip(words, values, strict=True):
            held[own] = value


def _choose_all(
    model: LanguageModel,
    inputs: np.ndarray,
    positions: np.ndarray,
    targets: np.ndarray,
    numbers: np.ndarray,
) -> NextWords:
    """Predict at rising positions of flat inputs: (P,) positions, (P,) targets, (P, S) numbers."""
    device, begin, found = model.device, 0, []
    wanted = torch.from_numpy(targets).to(device)  # (P,)
    uniform = torch.from_numpy(numbers).to(device)  # (P, S)
    for logits in model.next_logits(torch.from_numpy(inputs).to(device), likelihoods.LOGIT_ROWS):
        first, last = np.searchsorted(positions, [begin, begin + len(logits)])
        if first < last:
            own = slice(first, last)
            rows = torch.from_numpy(positions[own] - begin).to(device)  # (R,)
            found.append(_choose(logits, rows, wanted[own], uniform[own]))
        begin += len(logits)
    return NextWords(*(torch.cat(held).cpu().numpy() for held in zip(*found, strict=True)))


def _choose(
    logits: Tensor, rows: Tensor, targets: Tensor, numbers: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best (R,), the draws (R, S) and log p of the targets (R,) of rows of logits."""
    count = len(rows)
    held = logits[round_up(rows)]  # (R', V)
    log_prob = chosen_log_probs(held, round_up(targets))[:count]  # (R,)
    if log_prob.isnan().any():
        advice = "its weights are damaged or its numbers overflow: train or bring the model again"
        raise InputError(f"the model gives a token the log-probability NaN; {advice}")
    best = best_tokens(held)[:count].int()  # (R,)
    if not numbers.shape[1]:
        return best, numbers.int(), log_prob
    weights, uniform = unnormalized(held), round_up(numbers)  # (R', S)
    drawn = torch.stack([pick(weights, column) for column in uniform.unbind(1)], 1)  # (R', S)
    return best, drawn[:count].int(), log_prob


def best_tokens(logits: Tensor) -> Tensor:
    """Return the argmax, (R,), of logits (R, V), the lowest id of equals; of none ``<unk>``."""
    logits[logits.amax(1) == -torch.inf, UNK] = 0
    return logits.argmax(1)


_ROWS = 8 * QUANTUM  # of a batch
_CONTINUATION = "semantics/continuation"  # of the random streams


class Prompt(NamedTuple):
    """What is continued."""

    ids: np.ndarray  # tokens from the beginning of the document, without ``<s>``
    wanted: int  # tokens that are to follow, one at least
    item: int  # key of the random stream


@torch.no_grad()
def continue_prompts(
    model: LanguageModel, prompts: Sequence[Prompt], sampled: bool, seed: int
) -> list[np.ndarray | None]:
    """Let a model write as many tokens as wanted, never ``</s>``, drawn where `sampled`, else
    argmax; of a long prompt the end is read; None where the context has no room for them."""
    room = model.context_length
    found: list[np.ndarray | None] = [None] * len(prompts)
    possible = [k for k, prompt in enumerate(prompts) if room is None or prompt.wanted <= room]
    # rows of like length together: a batch runs to the end of its longest
    possible.sort(key=lambda k: (len(prompts[k].ids) + prompts[k].wanted, k))
    for first in range(0, len(possible), _ROWS):
        positions = possible[first : first + _ROWS]
        written = _write(model, [prompts[k] for k in positions], sampled, seed)
        for position, ids in zip(positions, written, strict=True):
            found[position] = ids
    return found


def _write(
    model: LanguageModel, prompts: Sequence[Prompt], sampled: bool, seed: int
) -> list[np.ndarray]:
    """Continue the rows of one batch, the last one repeated up to a whole number of quanta."""
    real, room = len(prompts), model.context_length
    prompts = [*prompts, *[prompts[-1]] * (-real % QUANTUM)]
    # the last token that is written is not read again
    begins = [0 if room is None else -(room - prompt.wanted + 1) for prompt in prompts]
    starts = [np.append(BOS, p.ids)[begin:] for p, begin in zip(prompts, begins, strict=True)]
    lengths = np.array([len(ids) for ids in starts])
    ends = lengths + np.array([prompt.wanted for prompt in prompts])
    tokens = np.zeros((len(starts), ends.max()), np.int64)
    numbers = np.zeros(tokens.shape if sampled else (0, 0))
    for row, (ids, prompt) in enumerate(zip(starts, prompts, strict=True)):
        tokens[row, : len(ids)] = ids
        if sampled:
            drawn = stream(seed, _CONTINUATION, prompt.item).random(prompt.wanted)
            numbers[row, len(ids) : ends[row]] = drawn
    device = model.device
    held, uniform = torch.from_numpy(tokens).to(device), torch.from_numpy(numbers).to(device)
    state = model.initial_state(len(tokens), int(ends.max()) - 1)
    for position in range(1, int(ends.max())):
        writing = torch.from_numpy((lengths <= position) & (position < ends)).to(device)  # (B,)
        if not bool(writing.any()):
            _, state = model.step_some(held[:, position - 1], state, held.new_empty(0))
            continue
        logits, state = model.step(held[:, position - 1], state)  # (B, V)
        logits[:, EOS] = -torch.inf
        chosen = best_tokens(logits)  # (B,)
        if sampled:
            chosen = pick(unnormalized(logits), uniform[:, position])
        held[:, position] = torch.where(writing, chosen, held[:, position])
    written = zip(held.cpu().numpy(), lengths.tolist(), ends.tolist(), strict=True)
    return [row[start:end] for row, start, end in written][:real]


# ---- sentences of documents ----

_SAMPLE = "semantics/sample"  # of the random streams


class _Sentence(NamedTuple):
    """A sentence: its document, where it is among the sentences and tokens of that."""

    unit: CutDocument
    position: int
    document: int  # number of the document
    ids: np.ndarray  # int32, (n,): of the document
    tokens: slice
    given: int | None  # tokens of its first words, where it is continued

    @property
    def words(self) -> list[str]:
        return self.unit.sentences[self.position]

    @property
    def item(self) -> int:
        """Key of its random streams."""
        return sentence_item(self.unit.unit_id, self.position)


def print_tokens(vocabulary: Vocabulary, texts: Sequence[np.ndarray]) -> list[str]:
    """Turn ids (n,) into words joined by one blank, ``</s>`` and ``<unk>`` printed so."""
    cuts = [np.flatnonzero(ids <= UNK) for ids in texts]
    parts = [
        ids[start:end]
        for ids, positions in zip(texts, cuts, strict=True)
        for start, end in zip([0, *(positions + 1)], [*positions, len(ids)], strict=True)
    ]
    words = iter(vocabulary.decode(parts))
    found = []
    for ids, positions in zip(texts, cuts, strict=True):
        special = (SPECIAL_TOKENS[number] for number in ids[positions])
        between = chain.from_iterable((name, next(words)) for name in special)
        found.append(" ".join(part for part in (next(words), *between) if part))
    return found


def _cut_sentences(
    units: Sequence[CutDocument], vocabulary: Vocabulary, prefix: int | None
) -> list[_Sentence]:
    """Encode documents, and find their sentences in the tokens."""
    pieces = []
    for unit in units:
        cut = [(words[:prefix], words[len(words[:prefix]) :]) for words in unit.sentences]
        pieces.append([" ".join(part) for parts in cut for part in parts if part])
    found = []
    encoded = vocabulary.encode_pieces(pieces)
    for document, (unit, parts) in enumerate(zip(units, encoded, strict=True)):
        ids, end = np.concatenate(parts), 0
        sizes = iter([len(part) for part in parts])
        for position, words in enumerate(unit.sentences):
            start, first = end, next(sizes)
            end += first + (next(sizes) if len(words[:prefix]) < len(words) else 0)
            given = first if start + first < end else None
            found.append(_Sentence(unit, position, document, ids, slice(start, end), given))
    return found


def _numbers(
    sentences: Sequence[_Sentence], texts: Sequence[np.ndarray], samples: int, seed: int
) -> list[np.ndarray]:
    """Return the uniform numbers of every document, (n, S): streams of the sentence and draw."""
    found = [np.empty((len(ids), samples)) for ids in texts]
    for sentence in sentences:
        count = sentence.tokens.stop - sentence.tokens.start
        for draw in range(samples):
            numbers = stream(seed, f"{_SAMPLE}/{draw}", sentence.item).random(count)
            found[sentence.document][sentence.tokens, draw] = numbers
    return found


def _continue(
    model: LanguageModel, sentences: Sequence[_Sentence], sampled: bool, seed: int
) -> list[np.ndarray | None]:
    """Return the ids of continued sentences, their first words included; None: not continued."""
    prompts = {}
    for number, (*_, ids, tokens, given) in enumerate(sentences):
        if given is not None:
            begin = tokens.start + given
            wanted = tokens.stop - begin
            prompts[number] = Prompt(ids[:begin], wanted, sentences[number].item)
    found: list[np.ndarray | None] = [None] * len(sentences)
    written = continue_prompts(model, list(prompts.values()), sampled, seed)
    for (number, prompt), more in zip(prompts.items(), written, strict=True):
        if more is not None:
            begun = prompt.ids[sentences[number].tokens.start :]
            found[number] = np.concatenate([begun, more])
    return found


def predict_sentences(
    model: LanguageModel,
    vocabulary: Vocabulary,
    units: Sequence[CutDocument],
    options: PredictionOptions,
    *,
    seed: int,
    batch_positions: int = likelihoods.LOGIT_ROWS,
) -> dict[str, list[object]]:
    """Predict the sentences of documents: columns of ``predictions``, less split and partner."""
    asked = options.continuation
    sentences = _cut_sentences(units, vocabulary, asked.prefix if asked else None)
    texts = list({sentence.document: sentence.ids for sentence in sentences}.values())
    numbers = _numbers(sentences, texts, options.samples, seed)
    words = predict_tokens(model, texts, numbers, batch_positions)
    told: list[np.ndarray] = []  # of each sentence the argmax tokens, then each draw
    for sentence in sentences:
        held = words[sentence.document]
        told += [held.best[sentence.tokens], *held.drawn[sentence.tokens].T]
    printed = print_tokens(vocabulary, told)
    each = 1 + options.samples
    continued: list[str | None] = [None] * len(sentences)
    if asked is not None:
        found = _continue(model, sentences, asked.decoding == "sample", seed)
        lines = iter(print_tokens(vocabulary, [ids for ids in found if ids is not None]))
        continued = [None if ids is None else next(lines) for ids in found]
    rows = [
        {
            "unit_id": sentence.unit.unit_id,
            "group": sentence.unit.group,
            "sentence": sentence.position,
            "words": len(sentence.words),
            "target": " ".join(sentence.words),
            "predicted": printed[each * number],
            "samples": printed[each * number + 1 : each * (number + 1)],
            "continued": continued[number],
            "given": None if asked is None or continued[number] is None else asked.prefix,
            "unknown_target": int((sentence.ids[sentence.tokens] == UNK).sum()),
            "unknown_predicted": int((told[each * number] == UNK).sum()),
            "log_prob": float(words[sentence.document].log_prob[sentence.tokens].sum()),
            "aligned": isinstance(vocabulary, ClosedVocabulary),
        }
        for number, sentence in enumerate(sentences)
    ]
    names = [name for name in PREDICTIONS.names if name not in ("split", "partner")]
    return {name: [row[name] for row in rows] for name in names}
