"""Thoughts drawn by a server, and scored by it as they were drawn, by their ids.

It draws at temperature 1 without truncation, up to the largest number of tokens; the thought ends
with the marker. Its log-probabilities of prompt, thought and answer, sent as ids, are the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.importance.thought_draws import (
    MOST_THOUGHTS,
    Beside,
    Question,
    ThoughtOptions,
    Thoughts,
    check_room,
    mixed_log_q,
)
from beyond_perplexity.models.served.client import RefusedError
from beyond_perplexity.models.served.protocols import AnswerError
from beyond_perplexity.models.served.server import PROBE, ServedModel
from beyond_perplexity.random_streams import stream

# What some servers have other defaults for, from a model's generation_config.json.
_UNTRUNCATED = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
_UNTRUNCATED |= {"presence_penalty": 0.0, "frequency_penalty": 0.0}
_SURE = 14.0  # −log of how often draws that are right are refused, at most: one in a million
_ROUNDING = 1e-4  # nats by which two scores of the most probable token may differ


class _Drawn(NamedTuple):
    """What a server wrote after a prompt, up to where the thought ends."""

    ids: list[int]
    marked: bool
    cut: bool


class DrawCheck:
    """Whether tokens are draws from the distribution that they are scored by.

    How often the most probable token is drawn, less its probability, adds up to a martingale: where
    the sum S of variances V is beyond S² = 2 `_SURE` (V + |S| / 3), a lower temperature or a cut of
    the distribution is likelier than chance (Freedman 1975).
    """

    def __init__(self) -> None:
        self.tokens, self.hits, self.expected, self.variance = 0, 0.0, 0.0, 0.0

    def add(self, log_probs: np.ndarray, most: np.ndarray) -> None:
        """Add tokens, (n,), by their log p and that of the most probable, nats."""
        top = np.exp(most)
        self.tokens += len(top)
        self.hits += float((log_probs >= most - _ROUNDING).sum())
        self.expected += float(top.sum())
        self.variance += float((top * (1 - top)).sum())

    def refuse(self, url: str) -> None:
        """Refuse draws from another distribution."""
        off = abs(self.hits - self.expected)
        if off**2 > 2 * _SURE * (self.variance + off / 3):
            raise InputError(
                f"{url}: of {self.tokens:,} tokens that it drew {self.hits:,.0f} are the most "
                f"probable, where {self.expected:,.0f} are expected: it does not draw from the "
                "distribution that it scores by; turn off its own temperature, top_k, top_p and "
                "penalties (vllm serve --generation-config vllm)"
            )


class ServedDialogue:
    """How a model behind a server is asked, in its token ids, as by `models.chat.open_dialogue`."""

    def __init__(self, served: ServedModel, end: str, between: str | None) -> None:
        self.served, self._run, self._url = served, served.client.run, served.client.url
        if not served.takes_ids:
            raise InputError(
                f"{self._url}: does not say the ids of a text (/tokenize), or takes none for a "
                "text: thoughts cannot be scored as they were drawn; serve the model with vLLM"
            )
        self.marker = self._ids(prompt=end, add_special_tokens=False)
        if not len(self.marker):
            raise InputError("end of thought: is empty; name what ends the model's thoughts")
        try:
            plain = self._chat("a")
        except RefusedError as error:
            remark(f"note: prompts are asked as they are, without a chat template: {error}")
            self.chats, self.between, self.empty = False, between or "", self.marker
        else:
            self.chats, self.between = True, "\n\n" if between is None else between
            self.empty = self._empty(plain)
        self.turn = self._turn()
        self._run(self._draw(self._ids(prompt=PROBE), 1, 1.0, 0))

    def _ids(self, **asked: Any) -> np.ndarray:
        body = {"model": self.served.model, **asked}
        answer = self._run(self.served.client.post("/tokenize", body))
        found = answer.get("tokens") if isinstance(answer, dict) else None
        if not isinstance(found, list) or not all(type(one) is int for one in found):
            raise AnswerError(f"{self._url}: gives no token ids of a text (/tokenize)")
        return np.array(found, np.int64)

    def _chat(self, prompt: str, answer: str | None = None, **asked: Any) -> np.ndarray:
        said = [{"role": "user", "content": prompt}]
        said += [] if answer is None else [{"role": "assistant", "content": answer}]
        return self._ids(messages=said, add_generation_prompt=answer is None, **asked)

    def _empty(self, plain: np.ndarray) -> np.ndarray:
        """Return the ids of a thought of no content, as a template that can turn them off has."""
        found = self._chat("a", chat_template_kwargs={"enable_thinking": False})
        more, size = found[len(plain) :], len(self.marker)
        if np.array_equal(found[: len(plain)], plain):
            for stop in range(size, len(more) + 1):
                if np.array_equal(more[stop - size : stop], self.marker):
                    return more[:stop]
        return self.marker

    def _turn(self) -> np.ndarray:
        if self.served.after:
            found = self._ids(prompt=self.served.after, add_special_tokens=False)
        elif self.chats:
            whole, held = self._chat("a", "a"), self._chat("a", "a", continue_final_message=True)
            found = whole[len(held) :] if np.array_equal(whole[: len(held)], held) else whole[:0]
        else:
            found = self.marker[:0]
        if not len(found):
            raise InputError("end: is missing; name the token that ends the model's answers")
        return found[:1]

    def ask(self, prompt: str) -> np.ndarray:
        """Return the ids of a prompt, int64, up to where the model goes on."""
        return self._chat(prompt) if self.chats else self._ids(prompt=prompt)

    def answer(self, _: str, text: str) -> np.ndarray:
        """Return the ids, int64, of what follows a thought: the answer and the end of the turn."""
        found = self._ids(prompt=self.between + text, add_special_tokens=False)
        return np.concatenate([found, self.turn])

    async def _draw(
        self, prompt: np.ndarray, most: int, temperature: float, seed: int
    ) -> tuple[list[int], bool]:
        """Let the server write: the ids, and whether it stopped at the largest number of tokens."""
        body = {"model": self.served.model, "prompt": prompt.tolist(), "max_tokens": most}
        body |= {"temperature": temperature, "seed": seed, "logprobs": 0, **_UNTRUNCATED}
        body["return_tokens_as_token_ids"] = True
        answer = await self.served.client.post("completions", body)
        try:
            choice = answer["choices"][0]
            tokens = choice["logprobs"]["tokens"]
            ids = [int(token.removeprefix("token_id:")) for token in tokens]
            if not all(token.startswith("token_id:") for token in tokens):
                raise ValueError
            ended = choice["finish_reason"]
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            raise InputError(
                f"{self._url}: does not say the ids of the tokens that it writes "
                "(return_tokens_as_token_ids), so that thoughts cannot be scored as they were "
                "drawn; serve the model with vLLM"
            ) from error
        if ended not in ("stop", "length"):
            raise InputError(f"{self._url}: broke off what it wrote ({ended!r:.40}); ask again")
        return ids, ended == "length"

    async def think(self, prompt: np.ndarray, most: int, temperature: float, seed: int) -> _Drawn:
        """Let the server think, `most` tokens at most, and leave out what it writes after."""
        ids, longest = await self._draw(prompt, most, temperature, seed)
        marker = self.marker.tolist()
        for place, token in enumerate(ids, start=1):
            if ids[max(0, place - len(marker)) : place] == marker:
                return _Drawn(ids[:place], True, False)
            if token == self.turn[0]:
                return _Drawn(ids[:place], False, False)
        return _Drawn(ids, False, longest)

    async def score(self, *parts: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """Score what follows the first part: log p and that of the most probable token, (2, n)."""
        ids = [int(one) for part in parts for one in part]
        said = await self.served.ask(ids)
        size = len(ids) - len(parts[0])
        scored = slice(len(parts[0]), len(ids))
        values = np.array(said.log_probs[scored], float)
        if len(values) != size or len(said.tops) < len(ids) or np.isnan(values).any():
            raise AnswerError(f"{self._url}: does not score every token of a text")
        tops = [max(top.values(), default=-math.inf) for top in said.tops[scored]]
        sizes = np.cumsum([len(part) for part in parts[1:]])[:-1]
        return np.split(np.array([values, np.maximum(tops, values)]), sizes, axis=1)


async def _sample(
    dialogue: ServedDialogue, asked: Question, options: ThoughtOptions, item: int, seed: int
) -> tuple[list[float], np.ndarray]:
    """Draw a thought: what a row of `Thoughts` has, and the scores of its tokens under q."""
    of_own = stream(seed, "thoughts/proposal", item).random() < options.drawn_as_own
    request = int(stream(seed, "thoughts/request", item).integers(1 << 31))
    most = options.most_tokens
    drawn = await dialogue.think(asked.prompt if of_own else asked.shown, most, 1.0, request)
    answer = asked.answer if drawn.marked else asked.answer[:0]
    own, answered = await dialogue.score(asked.prompt, drawn.ids, answer)
    seen = own
    if options.proposal != "own":
        (seen,) = await dialogue.score(asked.shown, drawn.ids)
    log_p = float(answered[0].sum()) if drawn.marked else -math.inf
    found = [log_p, *(float(one[0].sum()) for one in (own, seen)), len(drawn.ids), drawn.cut]
    return found, own if of_own else seen


async def _beside(dialogue: ServedDialogue, asked: Question, most: int) -> Beside:
    none = (await dialogue.score(asked.prompt, dialogue.empty, asked.answer))[1]
    drawn, best = await dialogue.think(asked.prompt, most, 0.0, 0), -math.inf
    if drawn.marked:
        best = float((await dialogue.score(asked.prompt, drawn.ids, asked.answer))[1][0].sum())
    return Beside(float(none[0].sum()), best)


def draw_served(
    dialogue: ServedDialogue,
    questions: Sequence[Question],
    options: ThoughtOptions,
    samples: int,
    seed: int,
    told: Callable[[], object],
) -> Iterator[tuple[Thoughts, Beside]]:
    """Draw thoughts of questions, many requests at once; a question beyond the context, or a server
    that draws from another distribution than it scores by, is an `InputError`."""
    client, check = dialogue.served.client, DrawCheck()
    for asked in questions:
        check_room(dialogue.served.most, asked, max(options.most_tokens, len(dialogue.empty)))
    items = [(one, one.instance * MOST_THOUGHTS + k) for one in questions for k in range(samples)]
    rows = client.in_order(_sample(dialogue, one, options, k, seed) for one, k in items)
    found: list[Thoughts] = []
    while len(found) < len(questions):
        columns = []
        for _ in range(samples):
            row, under_q = next(rows)
            check.add(*under_q)
            columns.append(row)
        check.refuse(client.url)
        answer, log_p, log_q, tokens, cut = (np.array(c) for c in zip(*columns, strict=True))
        if options.proposal != "own":
            log_q = mixed_log_q(log_p, log_q, options)
        found.append(Thoughts(answer, log_p, log_q, tokens.astype(np.int64), cut.astype(bool)))
        told()
    beside = client.in_order(_beside(dialogue, one, options.most_tokens) for one in questions)
    yield from zip(found, beside, strict=True)
