"""OpenAI's completions with the prompt echoed: vLLM, SGLang, llama-cpp-python, some providers.

One token is generated and dropped: 0 means no limit in llama-cpp-python, and an error elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beyond_perplexity.models.served import protocols

_MOST_GENERATED = 64  # tokens, of a server that does not mind that one is asked for


def request_of(prompt: str | Sequence[int], top: int) -> dict[str, Any]:
    """Return what the body of a request has beside the usual."""
    return {"prompt": prompt, "echo": True, "logprobs": top}


def read_answer(answer: Any) -> protocols.Prompted:
    """Read the log-probabilities of an answer."""
    held = answer["choices"][0].get("logprobs")
    if not held:
        raise protocols.AnswerError("gives no log-probabilities")
    usage = answer.get("usage") or {}
    generated = min(max(0, int(usage.get("completion_tokens", 1))), _MOST_GENERATED)
    # The form of chats, in which llama.cpp's own server gives what it generates
    if "content" in held or len(held["tokens"]) <= generated:
        raise protocols.AnswerError(protocols.GENERATED_ALONE)
    listed = [top or {} for top in held.get("top_logprobs") or ()]
    tops = [{token: protocols.log_prob_of(one) for token, one in top.items()} for top in listed]
    numbers = list(map(protocols.log_prob_of, held["token_logprobs"]))
    offsets = [int(one) for one in held.get("text_offset") or ()]
    counted = None if usage.get("prompt_tokens") is None else int(usage["prompt_tokens"])
    return protocols.Prompted(held["tokens"], numbers, tops, generated, counted, offsets)
