"""What can be checked of a model behind a server, by its answers alone.

Each check compares answers that must be equal, or adds up what must not be more than 1. A text is
asked for after the same other text each time, and was asked for before, where the check is not of
this; so a fault shows in the check that names it.
"""

from __future__ import annotations

import asyncio
import math
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from statistics import fmean
from typing import Any

import numpy as np

from beyond_perplexity.auditing.checks import (
    HARD_TEXTS,
    PROGRAMS,
    SERVED_CHECKS,
    Check,
    Evidence,
    Finding,
    PrintedNumber,
    wanted_checks,
    with_causes,
)
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.models.served.client import RefusedError
from beyond_perplexity.models.served.journal import Journal
from beyond_perplexity.models.served.protocols import SPECIAL, AnswerError, Prompted, ServedOptions
from beyond_perplexity.models.served.server import PROBE, GeneratedAloneError, ServedModel
from beyond_perplexity.models.served.token_texts import JoinError, text_scores
from beyond_perplexity.models.served.windows import is_too_long
from beyond_perplexity.models.token_scores import TokenScores
from beyond_perplexity.perplexities.served import row_of
from beyond_perplexity.perplexities.summary import ScoredText, perplexity_of, summarize_rows

_SPACER = "Something else is said here."
_CHANGES = ({"temperature": 0.5}, {"temperature": 2.0}, {"top_p": 0.5})
_TOP = 5
_UNKNOWN_ROOM = 8_192  # tokens of a long text where the server does not say its context
_SPACING = {"float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}  # of numbers around 1
_TEXTS = 8  # of the sample that are looked at


@dataclass(frozen=True)
class ServedSubject:
    """A server and some texts; `known` has the numbers of each, once they were asked for."""

    served: ServedModel
    texts: Sequence[str]
    known: dict[str, np.ndarray] = field(default_factory=dict)

    async def numbers(self, text: str, **changed: Any) -> np.ndarray:
        """Ask for a text after the same other text: its log-probabilities, (n,)."""
        await self.served.ask(_SPACER)
        return await self.at_once(text, **changed)

    async def at_once(self, text: str, **changed: Any) -> np.ndarray:
        """Ask for a text: its log-probabilities, (n,)."""
        served = self.served
        said = await served.ask(f"{served.before}{text}", **changed)
        return text_scores(said, text, served.before).log_probs

    async def usual(self, text: str) -> np.ndarray:
        """Return the numbers of a text that was asked for before."""
        if text not in self.known:
            await self.served.ask(f"{self.served.before}{text}")
            self.known[text] = await self.numbers(text)
        return self.known[text]


def _compare(pairs: Iterable[tuple[np.ndarray, np.ndarray, str]]) -> Evidence:
    """Return the largest difference of two numbers of a token, nats; the shorter row decides."""
    found = Evidence(0.0, 0, "all are equal")
    for one, other, where in pairs:
        held, again = (row[: min(len(one), len(other))] for row in (one, other))
        with np.errstate(invalid="ignore"):
            off = np.where(held == again, 0.0, np.abs(held - again))  # equal infinities, too
        found = found._replace(compared=found.compared + len(off))
        if not max(off, default=0.0) <= found.worst:
            k = int(off.argmax())
            said = f"{where}: token {k + 1} has {again[k]:.4f} nats, {held[k]:.4f} else"
            found = found._replace(worst=float(off[k]), detail=said)
    return found


async def try_prompt(subject: ServedSubject) -> Evidence:
    """Count the texts whose tokens have no log-probabilities."""
    found = [await subject.usual(text) for text in subject.texts]
    first = "first tokens too" if subject.served.first else "but the first token of each"
    return Evidence(0.0, sum(map(len, found)), f"all tokens have one, {first}")


async def try_generation(subject: ServedSubject) -> Evidence:
    """Compare a token as it is generated with the same token as the end of a prompt, nats."""
    pairs = []
    for text in [PROBE, *subject.texts[:3]]:
        for token, given, scored in await subject.served.compare_generation(text.rstrip()):
            where = f"generated and at the end of a text, {token!r:.30}"
            pairs.append((np.array([given]), np.array([scored]), where))
    return _compare(pairs) if pairs else Evidence(0.0, 0, "no next token stays one in a text")


async def try_sampling(subject: ServedSubject) -> Evidence:
    """Ask with other temperatures and another top_p: no token of a prompt may change, nats."""
    pairs = []
    for text in subject.texts[:3]:
        for change in _CHANGES:
            ((name, value),) = change.items()
            found = await subject.numbers(text, **change)
            pairs.append((await subject.usual(text), found, f"with {name} {value}"))
    return _compare(pairs)


async def try_top(subject: ServedSubject) -> Evidence:
    """Add up the probabilities of the most probable tokens at each place: by how much above 1."""
    sums = [0.0]
    for text in subject.texts:
        said = await subject.served.ask(f"{subject.served.before}{text}", _TOP)
        sums += [math.fsum(map(math.exp, top.values())) for top in said.tops if top]
    detail = f"the {_TOP} most probable tokens have {max(sums):.4f} together at most"
    return Evidence(max(0.0, max(sums) - 1), len(sums) - 1, detail)


async def try_repetition(subject: ServedSubject) -> Evidence:
    """Ask twice for the same text, nats."""
    texts = subject.texts[:4]
    return _compare([(await subject.usual(x), await subject.numbers(x), "again") for x in texts])


async def try_order(subject: ServedSubject) -> Evidence:
    """Ask for texts one after another, forth and back, nats."""
    found = {text: await subject.at_once(text) for text in subject.texts}
    pairs = [(await subject.usual(text), found[text], "after other texts") for text in found]
    for text in reversed(subject.texts):
        other = await subject.at_once(text)
        pairs += [(found[text], other, "in another order")]
        pairs += [(other, await subject.at_once(text), "after itself")]
    return _compare(pairs)


async def try_batch(subject: ServedSubject) -> Evidence:
    """Ask for many texts at the same time, nats."""
    many = [*subject.texts] * 4
    known = [await subject.usual(text) for text in many]
    found = await asyncio.gather(*(subject.at_once(text) for text in many))
    return _compare((one, two, "beside others") for one, two in zip(known, found, strict=True))


async def try_cache(subject: ServedSubject) -> Evidence:
    """Ask for texts that nobody asked for before, and again, alone and as a beginning, nats."""
    pairs = []
    for text in subject.texts[:4]:
        new = f"{secrets.token_hex(4)} {text.rstrip()}"
        cold = await subject.numbers(new)
        pairs.append((cold, await subject.numbers(new), "a second time"))
        pairs.append((cold, await subject.numbers(f"{new} and more"), "as a beginning"))
    return _compare(pairs)


def _begun(said: Prompted, text: str, before: str) -> int:
    """Count the tokens that stand before a text, shown or only counted."""
    scores = text_scores(said, text, before)
    own = len(scores.tokens) + int(scores.starts[0] > 0)  # a first one that is not scored
    return max(len(said.tokens) - said.generated, said.counted or 0) - own


async def try_beginning(subject: ServedSubject) -> Evidence:
    """Count the tokens before a text: there shall be one, so that its first token is scored."""
    served = subject.served
    many = _begun(await served.ask(PROBE), PROBE, "")
    if SPECIAL.fullmatch(served.before):
        many = _begun(await served.ask(f"{served.before}{PROBE}"), PROBE, served.before)
    if many > 1:
        return Evidence(float(many - 1), 1, f"{many} beginning tokens stand before each text")
    if not (many or served.before):
        return Evidence(1.0, 1, "none stands before a text: its first token is not scored")
    return Evidence(0.0, 1, "one" if served.first else "one, and yet the first token has no number")


async def try_context(subject: ServedSubject) -> Evidence:
    """Send a text that is longer than the context: it must be refused, or read whole."""
    served = subject.served
    size = 2 * (served.most or _UNKNOWN_ROOM)
    text = " ".join((f"{PROBE} " * (1 + size // len(PROBE.split()))).split()[:size])
    try:
        scores = text_scores(await served.ask(f"{served.before}{text}"), text, served.before)
    except RefusedError as error:
        how = "refused" if is_too_long(error) else f"refused otherwise: {error}"
        return Evidence(0.0, 1, f"{size:,} words are {how:.150}")
    except JoinError as error:
        return Evidence(1.0, 1, f"{size:,} words: {error}")
    return Evidence(0.0, 1, f"{size:,} words are {len(scores.tokens):,} tokens, read whole")


async def try_round_trip(subject: ServedSubject) -> Evidence:
    """Join the tokens of texts, and of strings that tokenizers are known to change."""
    hard = [text for text in HARD_TEXTS if not SPECIAL.search(text)]  # which may be read as tokens
    changed, texts = [], [*subject.texts, *hard]
    for text in texts:
        try:
            await subject.at_once(text)
        except JoinError as error:
            changed.append(f"{text[:30]!r}: {error}")
    return Evidence(float(len(changed)), len(texts), changed[0] if changed else "all join")


async def _fit(served: ServedModel, text: str) -> str:
    """Cut a text so that it fits in the context with some words more."""
    while True:
        try:
            await served.ask(f"{served.before}{_SPACER} {text}")
        except RefusedError as error:
            if not is_too_long(error) or len(text) < len(_SPACER):
                raise
            half = text[: len(text) // 2]
            text = half.rpartition(" ")[0] or half
        else:
            return text


def _make(name: str, row: Check, subject: ServedSubject, precision: str) -> Finding:
    function: Callable[[ServedSubject], Awaitable[Evidence]] = resolve_name(row.reference)

    async def make() -> Evidence:
        return await function(subject)

    try:
        found = subject.served.client.run(make())
    except (AnswerError, JoinError, RefusedError) as error:
        found = Evidence(math.nan, 1, f"the server failed: {error!s:.200}")
    return row.judge(name, found, _SPACING[precision])


def audit_server(
    options: ServedOptions,
    texts: Sequence[str],
    names: Sequence[str] | None = None,
    precision: str = "float32",
) -> list[Finding]:
    """Make the checks of `SERVED_CHECKS`, of some names or all, with tolerances by the server's
    `precision`; of a server that scores generated tokens alone only this is said."""
    wanted = wanted_checks(names, SERVED_CHECKS)
    try:
        with ServedModel(options, strict=False) as served:
            texts = [served.client.run(_fit(served, text)) for text in texts[:_TEXTS]]
            subject = ServedSubject(served, texts)
            found = [_make(name, row, subject, precision) for name, row in wanted.items()]
    except GeneratedAloneError as error:
        row = SERVED_CHECKS["prompt"]
        return [Finding("prompt", False, 1.0, row.tolerance, 1, str(error), row.explanation)]
    return with_causes(found, SERVED_CHECKS)


_Number = tuple[str, str, float, int, str]  # as `PrintedNumber`
_OPEN = "the beginning of text is seen, the end of a document is not scored"


def translate_server(served: ServedModel, texts: Sequence[str]) -> list[PrintedNumber]:
    """Return the numbers of programs that the scores of texts decide, and name the others: those
    that need the first token, windows of token ids, or the end of each text."""
    named = ((f"document {number}", text) for number, text in enumerate(texts, 1))
    scores = list(served.score(named, Journal()))
    found = list(_own(texts, scores))
    if served.first and max(len(one.log_probs) for one in scores) <= (served.most or math.inf):
        found += _of_whole_texts(texts, scores)
    numbers = [PrintedNumber(*one) for one in found]
    lacking = ", ".join(name for name in PROGRAMS if name not in {one.program for one in numbers})
    why = "they need windows of token ids, the first token, or the end of each text"
    remark(f"rosetta: {lacking}: not defined of what this server scores ({why})")
    return numbers


def _own(texts: Sequence[str], scores: Sequence[TokenScores]) -> Iterator[_Number]:
    held = enumerate(zip(texts, scores, strict=True))
    rows = [
        row_of(ScoredText(k, text), one) for k, (text, one) in held if len(one.tokens) > one.ended
    ]
    ended = all(one.ended for one in scores)
    found = summarize_rows([rows], None, {"text": "raw"}, count_eos=ended)
    how = f"of what is scored; the end {'is scored and counts in N' if ended else 'is not scored'}"
    for name, value in (
        ("perplexity per token", found["perplexity"]["token"]),
        ("perplexity per word", found["perplexity"]["word"]),
        ("bits per byte", found["bits"]["byte"]),
    ):
        number = math.inf if value is None else value
        yield "beyond-perplexity", name, number, found["n"]["token"], how


def _of_whole_texts(texts: Sequence[str], scores: Sequence[TokenScores]) -> Iterator[_Number]:
    held = [one.log_probs[: len(one.tokens) - one.ended] for one in scores]
    total, count = math.fsum(map(math.fsum, held)), sum(map(len, held))
    words = sum(len(re.split(r"\s+", text)) for text in texts)
    size = sum(len(text.encode()) for text in texts)
    for name, value, unit in (
        ("word_perplexity", perplexity_of(total, words), "per word, split at white space"),
        ("byte_perplexity", perplexity_of(total, size), "per byte"),
        ("bits_per_byte", -total / size / math.log(2), "base 2, per byte of UTF-8"),
    ):
        yield "lm-evaluation-harness", name, value, count, f"{unit}; {_OPEN}"
    mean = fmean(perplexity_of(math.fsum(one), len(one)) for one in held)
    how = f"arithmetic mean of the texts' perplexities per token; {_OPEN}"
    yield "evaluate", "mean_perplexity", mean, count, how
    if all(one.ended for one in scores):
        total = math.fsum(math.fsum(one.log_probs) for one in scores)
        value = perplexity_of(total, sum(len(text.split()) + 1 for text in texts))
        how = "per word, the end of each line being a word; each document is a line"
        for name in ("Perplexity including OOVs", "Perplexity excluding OOVs"):
            yield "KenLM", name, value, count + len(texts), how
