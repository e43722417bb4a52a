"""How a model behind a server is named, and asked for log-probabilities of a prompt, by the first
row that it can do; nothing heavy is imported."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pkgutil import resolve_name
from typing import Any, NamedTuple

from beyond_perplexity.arguments import option
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Rows

GENERATED_ALONE = (
    "gives log-probabilities of the tokens that it generates alone, and none of the text "
    "(ggml-org/llama.cpp#27174): no perplexity can be had of it; serve the model with vLLM, SGLang "
    "or llama-cpp-python (logits_all)"
)
_MINUS_INFINITY = -9999.0  # as vLLM writes it, for JSON has no infinities
_ROUNDING = 1e-3  # by which a log-probability may be above 0


class AnswerError(InputError):
    """An answer of a server has not what was asked for."""


class Prompted(NamedTuple):
    """What a server says of the tokens of a prompt, and of those that it generated after it."""

    tokens: Sequence[str]  # empty: it does not say which
    log_probs: Sequence[float]  # nats; NaN: not given
    tops: Sequence[Mapping[str, float]]  # the most probable tokens at each place, where known
    generated: int  # so many of the tokens are no part of the prompt
    counted: int | None = None  # tokens of the prompt as the server counts them
    offsets: Sequence[int] = ()  # characters before each token, where known


class Protocol(NamedTuple):
    """What is known of a protocol."""

    module: str  # that has `request_of` and `read_answer`
    words: str  # what it is called
    verified: str  # which servers its numbers were compared with

    def request(self, prompt: str | Sequence[int], top: int) -> dict[str, Any]:
        """Return the body that asks for a prompt, and the `top` most probable tokens beside."""
        body: dict[str, Any] = resolve_name(f"{self.module}:request_of")(prompt, top)
        # The distribution of the model itself, if the server gives that which it draws from.
        return {"max_tokens": 1, "temperature": 1.0, "top_p": 1.0, **body}

    def read(self, answer: Any) -> Prompted:
        """Read an answer; `AnswerError` where it has no log-probabilities of the prompt."""
        try:
            found: Prompted = resolve_name(f"{self.module}:read_answer")(answer)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise AnswerError(f"has another shape than {self.words} ({reason:.100})") from error
        if not len(found.tokens) == len(found.log_probs) > 0:
            raise AnswerError("has another number of tokens than of log-probabilities, or none")
        if not all(isinstance(token, str) for token in found.tokens):
            raise AnswerError("has a token that is no string")
        return found


_HERE = "beyond_perplexity.models.served"

PROTOCOLS: Rows[Protocol] = {
    "completions": Protocol(
        f"{_HERE}.completions", "completions with echo and logprobs", "llama-cpp-python 0.3.36"
    ),
    "prompt_logprobs": Protocol(
        f"{_HERE}.prompt_logprobs", "completions with prompt_logprobs", "none yet"
    ),
}


def log_prob_of(value: object) -> float:
    """Read a log-probability: null is NaN; what is none is an `AnswerError`."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= _ROUNDING:
        raise AnswerError(f"has {value!r:.40} for a log-probability")
    return -math.inf if value <= _MINUS_INFINITY else min(0.0, float(value))


KEY = "OPENAI_API_KEY"  # of the environment
# What looks like a special token of some model.
SPECIAL = re.compile(
    r"<\|[^<>|\s]{1,60}\|>|<\uff5c[^<>\uff5c\s]{1,60}\uff5c>|</?s>|</?(?:unk|pad|bos|eos|mask)>"
    r"|<(?:start|end)_of_turn>|\[(?:UNK|PAD|CLS|SEP|MASK|BOS|EOS|/?INST)\]"
)


@dataclass(frozen=True)
class ServedOptions:
    """A model behind a server, in the place of one in a folder."""

    _: KW_ONLY
    url: str | None = option(
        None,
        "address of a server that has the model, such as http://localhost:8000",
        more=f"In the place of `model`. Its key, if it wants one, is in ``{KEY}``.",
    )
    served_model: str | None = option(
        None, "what the server calls the model (default: the only one that it has)", metavar="NAME"
    )
    concurrency: int = option(16, "requests that a server is sent at once", least=1, most=1024)
    beginning: str | None = option(
        None,
        "text before each document, which is seen and not scored: the model's beginning of text, "
        "where its server adds none",
        metavar="TEXT",
    )
    end: str | None = option(
        None,
        "text of the token that ends a document, such as </s>: it is scored then, of a server",
        metavar="TEXT",
    )

    @property
    def signed(self) -> dict[str, object]:
        """The part of a signature: a beginning that is not a model's own."""
        if not self.beginning or SPECIAL.fullmatch(self.beginning):
            return {}
        return {"before": self.beginning.encode("unicode_escape").decode()}


ASKED = ("served_model", "concurrency", "beginning", "end")  # what means nothing without a server
