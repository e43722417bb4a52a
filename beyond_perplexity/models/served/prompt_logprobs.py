"""The parameter ``prompt_logprobs`` that vLLM adds to completions: an object a token by ids, the
prompt's first, and null for the first token, of which nothing is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beyond_perplexity.models.served.protocols import AnswerError, Prompted, log_prob_of


def request_of(prompt: str | Sequence[int], top: int) -> dict[str, Any]:
    """Return what the body of a request has beside the usual."""
    return {"prompt": prompt, "prompt_logprobs": top}


def read_answer(answer: Any) -> Prompted:
    """Read the log-probabilities of an answer."""
    choice = answer["choices"][0]
    held = choice.get("prompt_logprobs", answer.get("prompt_logprobs"))
    if not held:
        raise AnswerError("leaves prompt_logprobs out of its answer")
    rows = [[*entry.values()] if entry else [{}] for entry in held]
    tokens = [row[0].get("decoded_token") or "" for row in rows]
    numbers = [log_prob_of(row[0].get("logprob")) for row in rows]
    tops = [{k: log_prob_of(one["logprob"]) for k, one in (entry or {}).items()} for entry in held]
    return Prompted(tokens, numbers, tops, 0, (answer.get("usage") or {}).get("prompt_tokens"))
