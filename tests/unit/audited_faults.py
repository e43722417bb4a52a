"""Models, tokenizers and scoring programs with one published mistake each, made of sound ones."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch.nn import functional

from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.likelihoods import ScoreWindow, cut_windows, score_windows
from beyond_perplexity.perplexities.summary import score_rows
from beyond_perplexity.vocabulary import BOS, EOS, BPEVocabulary, Vocabulary


class Wrapped(LanguageModel):
    """A model that does what the model in it does."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.vocabulary_size, self.context_length = model.vocabulary_size, model.context_length

    @property
    def config(self):
        return self.model.config

    @property
    def device(self):
        return self.model.device

    def forward(self, tokens):
        return self.model(tokens)

    def initial_state(self, batch_size, maximum_length):
        return self.model.initial_state(batch_size, maximum_length)

    def step(self, tokens, state):
        return self.model.step(tokens, state)


class Changed(Wrapped):
    """A model whose logits a function changes; with `steps` those of single steps as well."""

    def __init__(self, model, change, steps=False):
        super().__init__(model)
        self.change, self.steps = change, steps

    def forward(self, tokens):
        return self.change(self.model(tokens), tokens)

    def step(self, tokens, state):
        logits, state = self.model.step(tokens, state)
        return (self.change(logits, tokens) if self.steps else logits), state


def endless(logits, tokens):
    """Mask the end, which then cannot be, as it is done to force long texts."""
    return logits.index_fill(-1, torch.tensor([EOS]), -torch.inf)


def shifted(logits, tokens, by):
    """Take each place for one before or after it: without the shift by one, or shifted twice."""
    places = (torch.arange(logits.shape[1]) + by).clamp(0, logits.shape[1] - 1)
    return logits[:, places]


def bidirectional(logits, tokens):
    """Leave the causal mask out: every place sees a summary of all."""
    seen = torch.cos(tokens.double()).mean(1).float()[:, None, None]
    return logits + 0.5 * seen * ramp(logits)


def leaking(logits, tokens, strength=0.3, beyond=0):
    """Positions that are counted from the padded end, as after padding at the left without ids."""
    return logits + strength * math.sin(max(0, tokens.shape[1] - beyond)) * ramp(logits)


def batch_normalized(logits, tokens, strength=0.2, beyond=0):
    """Normalize by the batch, in training mode still."""
    mean = logits[..., 3:].mean(0, keepdim=True)  # (1, T, V − 3)
    mean[:, :beyond] = 0
    return torch.cat([logits[..., :3], logits[..., 3:] - strength * mean], -1)


def drops_out(logits, tokens):
    """functional.dropout(…), whose default is training=True."""
    dropped = functional.dropout(logits.nan_to_num(neginf=0))
    return torch.where(logits > -torch.inf, dropped, logits)


def overflows(logits, tokens):
    """Half precision that overflows where texts are long."""
    logits = logits.clone()
    logits[:, 30:] *= math.nan
    return logits


def padded(logits, tokens):
    """Fill the vocabulary up to a multiple of 64, with a softmax over all of it."""
    return functional.pad(logits, (0, 64 - logits.shape[-1] % 64), value=1.0)


class WrongAxis(Wrapped):
    """softmax(dim=1), which is time in batches of (B, T, V)."""

    def target_log_probs(self, inputs, targets, most):
        log_probs = self.model(inputs).log_softmax(1)
        yield log_probs.gather(-1, targets[..., None])[..., 0].double().flatten()


class Remembers(Wrapped):
    """A recurrent state that is not put back between texts."""

    carried = 0.0

    def __init__(self, model, beyond=0):
        super().__init__(model)
        self.beyond = beyond

    def forward(self, tokens):
        if tokens.shape[1] <= self.beyond:
            return self.model(tokens)
        logits = self.model(tokens) + self.carried * ramp(self.model(tokens[:, :1]))
        self.carried = 0.5 * self.carried + 0.1 * float(tokens.double().mean() % 3)
        return logits


class WrongPositions(Wrapped):
    """A cache whose steps are all at the first position."""

    def step(self, tokens, state):
        logits, _ = self.model.step(tokens, self.model.initial_state(len(tokens), 4))
        return logits, state


class WrongPositionsLate(Wrapped):
    """A cache of 64 places that is emptied when it is full."""

    def initial_state(self, batch_size, maximum_length):
        self.steps = 0
        return self.model.initial_state(batch_size, maximum_length)

    def step(self, tokens, state):
        self.steps += 1
        if self.steps == 65:
            state = self.model.initial_state(len(tokens), self.context_length)
        return self.model.step(tokens, state)


class PenalizedLate(Wrapped):
    """A penalty for what stands beyond 64 places."""

    def target_log_probs(self, inputs, targets, most):
        scores = torch.cat(list(self.model.target_log_probs(inputs, targets, most)))
        late = torch.arange(inputs.shape[1]).repeat(len(inputs)) >= 64  # (B T,)
        yield torch.where(late, scores / 1.1, scores)


class Penalized(Wrapped):
    """A length penalty, which makes scores of what is not normalized."""

    def target_log_probs(self, inputs, targets, most):
        for scores in self.model.target_log_probs(inputs, targets, most):
            yield scores / 1.1


def ramp(logits):
    """Numbers that differ from id to id, (V,)."""
    return torch.linspace(-1, 1, logits.shape[-1])


class LowerCasing(BPEVocabulary):
    """A tokenizer of an uncased model."""

    def encode(self, texts):
        return super().encode([text.lower() for text in texts])


class AddsBeginning(BPEVocabulary):
    """A tokenizer that adds <s> by itself, for a program that adds it too."""

    def encode(self, texts):
        return [np.concatenate([[BOS], ids]).astype(np.int32) for ids in super().encode(texts)]


class ReadsSpecial(BPEVocabulary):
    """A tokenizer that looks for special tokens in a text."""

    def encode(self, texts):
        found = []
        for text in texts:
            parts = super().encode(text.split("</s>"))
            between = [np.append(part, EOS) for part in parts[:-1]]
            found.append(np.concatenate([*between, parts[-1]]).astype(np.int32))
        return found


def changed_rows(**changes):
    """Make a scoring program that computes some columns by mistake."""

    def score(*arguments, **options):
        for rows in score_rows(*arguments, **options):
            yield [row._replace(**{n: f(row) for n, f in changes.items()}) for row in rows]

    return score


# len(text) where len(text.encode()) was meant; log2 where ln was meant
characters_for_bytes = changed_rows(bytes=lambda row: row.characters)
in_bits = changed_rows(log_likelihood=lambda row: row.log_likelihood / math.log(2))


def sorted_by_length(model, vocabulary, texts, **options):
    """Results of texts that were sorted by length, never put back in order."""
    rows = [row for part in score_rows(model, vocabulary, texts, **options) for row in part]
    ids = [row.doc_id for row in rows]
    found = sorted(rows, key=lambda row: row.bytes)
    yield [row._replace(doc_id=number) for row, number in zip(found, ids, strict=True)]


def swapped_late(model, vocabulary, texts, **options):
    """Results of the second batch of 32 texts and later ones, put back in the wrong order."""
    rows = [row for part in score_rows(model, vocabulary, texts, **options) for row in part]
    late = rows[32:]
    turned = [a._replace(doc_id=b.doc_id) for a, b in zip(late, late[::-1], strict=True)]
    yield rows[:32] + turned


def by_windows(cut):
    """Make a scoring program that cuts windows in its own way."""

    def score(model, vocabulary, texts, **options):
        context, stride = model.context_length, options.pop("stride", None)
        for rows in score_rows(model, vocabulary, texts, **options):
            new = []
            for row, text in zip(rows, texts, strict=True):
                string = text if isinstance(text, str) else text.text
                ids = vocabulary.encode([string])[0].astype(np.int64)
                windows = cut(np.concatenate([[BOS], ids, [EOS]]), context or 10**6, stride)
                total = sum(float(next(score_windows(model, [w])).sum()) for w in windows)
                new.append(row._replace(log_likelihood=total))
            yield new

    return score


def overlapping(whole, context, stride):
    """Strided windows without a mask: what overlaps counts twice."""
    for begin in range(0, len(whole) - 1, stride or max(1, context // 2)):
        tokens = whole[begin : begin + context + 1]
        yield ScoreWindow(0, tokens, len(tokens) - 1)
        if begin + context >= len(whole) - 1:
            break


def dropping(whole, context, stride):
    """Whole windows only: what is left at the end is dropped, but for its last token."""
    last = len(whole) - 1
    for begin in range(0, max(1, last - last % context), context):
        tokens = whole[begin : begin + context + 1]
        yield ScoreWindow(0, tokens, len(tokens) - 1)
    if last > context and last % context:
        yield ScoreWindow(0, whole[-2:], 1)


def without_beginning(whole, context, stride):
    """Labels that are shifted without a beginning of text: nothing predicts the first token."""
    first, *rest = cut_windows(0, whole[1:-1], context, stride or context)
    yield first._replace(counted=first.counted - 1)
    yield from rest


def without_end(whole, context, stride):
    """</s> is never predicted."""
    *others, last = cut_windows(0, whole[1:-1], context, stride or context)
    yield from others
    if last.counted > 1:
        yield last._replace(tokens=last.tokens[:-1], counted=last.counted - 1)


def with_model(kind, **options):
    return lambda subject: replace(subject, model=kind(subject.model, **options).eval())


def with_logits(change, *, steps=False, **options):
    return with_model(Changed, change=partial(change, **options), steps=steps)


def with_scorer(score):
    return lambda subject: replace(subject, score=score)


def with_vocabulary(kind):
    def change(subject):
        held: Vocabulary = kind.from_description(subject.vocabulary.describe())
        return replace(subject, vocabulary=held)

    return change


# By the check that names it: what is done to a sound subject with a BPE vocabulary.
FAULTS = {
    "unshifted logits": ("alignment", with_logits(shifted, by=1)),
    "logits shifted twice": ("alignment", with_logits(shifted, by=-1)),
    "no causal mask": ("future", with_logits(bidirectional)),
    "softmax over the wrong axis": ("normalization", with_model(WrongAxis)),
    "padding that leaks": ("padding", with_logits(leaking)),
    "batch statistics": ("batch", with_logits(batch_normalized)),
    "dropout in evaluation": ("repetition", with_logits(drops_out)),
    "state carried from text to text": ("repetition", with_model(Remembers)),
    "overflow in long texts": ("numbers", with_logits(overflows)),
    "probability for padding rows": ("reserved", with_logits(padded, steps=True)),
    "wrong positions in the cache": ("steps", with_model(WrongPositions)),
    "length penalty": ("normalization", with_model(Penalized)),
    "characters counted as bytes": ("denominators", with_scorer(characters_for_bytes)),
    "bits for nats": ("likelihood", with_scorer(in_bits)),
    "results in the order of length": ("order", with_scorer(sorted_by_length)),
    "first token not scored": ("beginning", with_scorer(by_windows(without_beginning))),
    "end not scored": ("end", with_scorer(by_windows(without_end))),
    "overlaps scored twice": ("windows", with_scorer(by_windows(overlapping))),
    "last window dropped": ("windows", with_scorer(by_windows(dropping))),
    "beginning of text twice": ("beginning", with_vocabulary(AddsBeginning)),
    "special tokens read in texts": ("special tokens", with_vocabulary(ReadsSpecial)),
    "an end that cannot be": ("possible", with_logits(endless, steps=True)),
    "lower-casing tokenizer": ("round trip", with_vocabulary(LowerCasing)),
}

# Those that show late only, likewise; the context must hold more than 64 tokens.
LATE_FAULTS = {
    "padding that leaks beyond 32": ("padding", with_logits(leaking, beyond=32)),
    "batch statistics beyond 32": ("batch", with_logits(batch_normalized, beyond=32)),
    "state carried by long texts": ("repetition", with_model(Remembers, beyond=32)),
    "cache emptied after 64": ("steps", with_model(WrongPositionsLate)),
    "penalty beyond 64": ("likelihood", with_model(PenalizedLate)),
    "results permuted beyond 32": ("order", with_scorer(swapped_late)),
}
# Those that are within the rounding of bfloat16.
LITTLE_FAULTS = {
    "padding that leaks little": ("padding", with_logits(leaking, strength=0.02)),
    "batch statistics, a little": ("batch", with_logits(batch_normalized, strength=0.02)),
}
