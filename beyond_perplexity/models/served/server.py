"""A model behind a server: what it can do is found out first, then it scores texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any, Self

from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.models.served import windows
from beyond_perplexity.models.served.client import Client, RefusedError
from beyond_perplexity.models.served.journal import Journal
from beyond_perplexity.models.served.protocols import (
    GENERATED_ALONE,
    PROTOCOLS,
    SPECIAL,
    AnswerError,
    Prompted,
    ServedOptions,
)
from beyond_perplexity.models.served.token_texts import JoinError, text_scores, token_bytes
from beyond_perplexity.models.token_scores import TokenScores
from beyond_perplexity.storage.inputs import told

PROBE = "the cat sat on the mat, and the dog"  # what no tokenizer changes
_COMPARED = 3  # next tokens
# Nats by which the score of a token may differ from that with which it is generated: what is left
# of 16 bits. Those of another position differ by some nats.
_APART = 0.5
_FAR = 3  # bytes of a token: longer texts are not sent whole


class GeneratedAloneError(InputError):
    """A server gives log-probabilities of what it generates, and of nothing else."""


class ServedModel:
    """A model behind a server, for as long as a ``with`` lasts.

    `strict`: refuse one whose scores of a text are not those that it generates by. Then known:
    `model`, its name there; `protocol`, a row of `PROTOCOLS`; `most` predictions of a window (None:
    not said); `takes_ids`: it says a text's ids and takes them; `first`: the first token is scored.
    """

    def __init__(
        self,
        options: ServedOptions,
        context_length: int | None = None,
        stride: int | None = None,
        *,
        strict: bool = True,
    ) -> None:
        if stride is not None and not stride <= (context_length or 0):
            limit = f"1 to {context_length}" if context_length else "a context_length beside it"
            raise InputError(f"stride: is {stride}, expected {limit}")
        self.options, self.most, self.stride = options, context_length, stride
        self.before, self.after = options.beginning or "", options.end or ""
        with told("beginning and end: have half a surrogate pair"):
            f"{self.before}{self.after}".encode()
        self.client = Client(str(options.url), options.concurrency)
        self._strict = strict

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.client)
            self.client.run(self._find_out())
            self._stack = stack.pop_all()
        remark(f"{self.client.url}: {self.describe()}")
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    # ---- what it can do ----

    async def _find_out(self) -> None:
        self.model, room = await self._choose_model()
        reasons = []
        for self.protocol, row in PROTOCOLS.items():
            try:
                said = await self.ask(f"{self.before}{PROBE}{self.after}")
                found = text_scores(said, PROBE, self.before, self.after)
                break
            except (AnswerError, RefusedError, JoinError) as error:
                reasons.append(f"{row.words}: {error}")
        else:
            if any(GENERATED_ALONE in reason for reason in reasons):
                raise GeneratedAloneError(f"{self.client.url}: {GENERATED_ALONE}")
            why = "; ".join(reasons)
            raise InputError(f"{self.client.url}: cannot score a text; asked for {why}")
        self.first = bool(found.starts[0] == 0)
        if self.before and not self.first:
            advice = "give another, such as a line feed"
            raise InputError(f"beginning: the server does not score the token after it; {advice}")
        self.takes_ids = await self._try_ids(said)
        if room and (self.most is None or self.most > room - 2):  # one more token is generated
            if self.most is not None:
                raise InputError(f"context_length: is {self.most}, expected 1 to {room - 2}")
            self.most = room - 2
        compared = await self.compare_generation(PROBE) if self._strict else []
        self._compared = bool(compared)
        if compared and median(abs(one - other) for _, one, other in compared) > _APART:
            token, given, scored = compared[0]
            raise InputError(
                f"{self.client.url}: generates {token!r} with {given:.2f} nats and scores it with "
                f"{scored:.2f}: its log-probabilities of a text are shifted by one, or of another "
                "distribution (audit --url says which)"
            )

    async def _choose_model(self) -> tuple[str, int | None]:
        """Return the name of the model and the context that the server says."""
        try:
            held = (await self.client.get("models"))["data"]
            rooms = {str(one["id"]): one.get("max_model_len") for one in held}
        except (RefusedError, KeyError, TypeError, AttributeError):
            rooms = {}
        wanted = self.options.served_model
        known = ", ".join([*list(rooms)[:8], *(["..."] if len(rooms) > 8 else [])])
        if wanted is None and len(rooms) != 1:
            has = f"there are {known}" if rooms else "the server does not say which it has"
            raise InputError(f"served_model: is missing; {has}")
        if wanted is not None and rooms and wanted not in rooms:
            raise InputError(
                f"served_model: {self.client.url} has no {wanted!r:.80}; it has {known}"
            )
        name = wanted or next(iter(rooms))
        room = rooms.get(name)
        return name, room if isinstance(room, int) and room > 2 else None

    async def _try_ids(self, said: Prompted) -> bool:
        try:
            ids = await self.tokenize(f"{self.before}{PROBE}{self.after}")
            other = await self.ask(ids)
        except InputError:
            return False
        counts = [len(one.tokens) - one.generated for one in (said, other)]
        return counts == [len(ids)] * 2 and other.tokens[: len(ids)] == said.tokens[: len(ids)]

    async def compare_generation(self, text: str) -> list[tuple[str, float, float]]:
        """Return tokens that may come next: each with its nats as generated, and as scored."""
        prompt = f"{self.before}{text}"
        row = {"max_tokens": 1, "logprobs": 5, "temperature": 1.0, "top_p": 1.0}
        answer = await self.client.post(
            "completions", {"model": self.model, "prompt": prompt, **row}
        )
        try:
            held = answer["choices"][0]["logprobs"]
            tops = {**held["top_logprobs"][0], held["tokens"][0]: held["token_logprobs"][0]}
            ordered = sorted(tops, key=lambda token: -float(tops[token]))
        except (KeyError, IndexError, TypeError, ValueError):
            return []
        found: list[tuple[str, float, float]] = []
        for token in ordered:
            if token_bytes(token) is None or SPECIAL.fullmatch(token) or len(found) == _COMPARED:
                continue
            try:
                scores = text_scores(
                    await self.ask(f"{prompt}{token}"), f"{text}{token}", self.before
                )
            except JoinError:
                continue
            if scores.tokens[-1] == token:  # else it becomes another where it stands in a text
                found.append((token, float(tops[token]), float(scores.log_probs[-1])))
        return found

    def describe(self) -> str:
        """Say in a line what was found out."""
        first = "scored" if self.first else "not scored (give a beginning to have it)"
        end = "scored" if self.after else "not scored (name its token as end to have it)"
        room = "not said" if self.most is None else f"{self.most:,} tokens"
        ids = ", by ids" if self.takes_ids else ""
        alone = "; not compared with what it generates" * (self._strict and not self._compared)
        asked = f"{self.model} by {PROTOCOLS[self.protocol].words}"
        return f"{asked}; first token {first}; end {end}; context {room}{ids}{alone}"

    # ---- scoring ----

    async def ask(self, prompt: str | Sequence[int], top: int = 1, **changed: Any) -> Prompted:
        """Return what it says of a prompt; `changed` are further keys of the request."""
        row = PROTOCOLS[self.protocol]
        body = {"model": self.model, **row.request(prompt, top), **changed}
        return row.read(await self.client.post("completions", body))

    async def tokenize(self, prompt: str) -> list[int]:
        """Return the ids of a prompt, with what the server puts before it."""
        body = {"model": self.model, "prompt": prompt}
        answer = await self.client.post("/tokenize", body)
        found = answer.get("tokens") if isinstance(answer, dict) else None
        if not isinstance(found, list) or not all(type(one) is int for one in found):
            raise AnswerError("gives no token ids")
        return found

    async def score_text(self, text: str) -> TokenScores:
        """Score a text, in windows where it is longer than the context."""
        parts = self.before, text, self.after
        prompt, most = "".join(parts), self.most
        if most is None or len(prompt.encode()) <= _FAR * most:
            try:
                found = text_scores(await self.ask(prompt), text, self.before, self.after)
                if most is None or len(found.tokens) <= most:
                    return found
            except RefusedError as error:
                if not windows.is_too_long(error):
                    raise
                most = most or (windows.limit_said(error) or 0) - 2
                if most < 1:
                    raise InputError(f"{error}; give its context_length") from error
        assert most is not None
        how = most, self.stride or max(1, most // 2), parts
        if self.takes_ids:
            return await windows.score_by_ids(self.ask, await self.tokenize(prompt), *how)
        return await windows.score_by_strings(self.ask, *how)

    def score(self, texts: Iterable[tuple[object, str]], journal: Journal) -> Iterator[TokenScores]:
        """Score texts, each with what a message calls it, in their order; see `Journal`."""
        return self.client.in_order(self._score_named(name, text, journal) for name, text in texts)

    async def _score_named(self, name: object, text: str, journal: Journal) -> TokenScores:
        if (kept := journal.find(text)) is not None:
            return kept
        try:
            found = await self.score_text(text)
        except (AnswerError, JoinError, RefusedError) as error:
            raise InputError(f"{name}: {error}") from error
        journal.keep(text, found)
        return found
