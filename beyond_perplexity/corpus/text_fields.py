"""Where the text of an object of JSON or a row is: a field, a path, or as a program writes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from beyond_perplexity.corpus.readers import UnusableError
from beyond_perplexity.storage.inputs import brief_repr

TEXT_FIELD = "text"  # of JSON objects and of tables, where no other is named
SHOWN_FIELDS = 5
FAILED = "failed request"
FIELD_ADVICE = "name that of the texts by the option field"


class LeftOutError(Exception):
    """What is no document and no fault either; the message is the reason that is counted."""


def follow_path(value: Any, path: str) -> Any:
    """Return what a path of keys and positions leads to, as ``choices.0.message.content``, first a
    key that is the whole path; raises `UnusableError`."""
    if isinstance(value, dict) and path in value:
        return value[path]
    found, way = value, ""
    for step in path.split("."):
        there = _offered(found)
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and step in map(str, range(-len(found), len(found))):
            found = found[int(step)]
        else:
            behind = f" behind '{way[1:]}'" if way else ""
            raise UnusableError(f"field '{path}' is missing: no '{step}'{behind}; {there}")
        way += f".{step}"
    return found


def _offered(value: Any) -> str:
    """Say which keys or places there are."""
    if isinstance(value, list):
        return f"there are {len(value)} entries, from 0 on"
    if not isinstance(value, dict) or not value:
        return "there is no key"
    others = [brief_repr(name) for name in list(value)[:SHOWN_FIELDS]]
    more = f", and {len(value) - len(others)} more" if len(value) > len(others) else ""
    return f"there are {', '.join(others)}{more}"


def _of_chat(messages: Any) -> Any:
    """Join what the assistant says in a chat."""
    turns = [one for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []
    said = []
    for turn in turns:
        content = turn.get("content") if turn.get("role") == "assistant" else None
        if isinstance(content, list):  # in parts, some of which may be pictures
            content = "".join(one["text"] for one in content if isinstance(one.get("text"), str))
        said += [content] if isinstance(content, str) else []
    if not said:
        raise UnusableError("the chat has no text of the assistant")
    return "\n".join(said)


def _of_choices(choices: Any) -> Any:
    """Return the text of the one answer of OpenAI's completions."""
    if not isinstance(choices, list) or len(choices) != 1:
        count = len(choices) if isinstance(choices, list) else "no"
        raise UnusableError(f"has {count} choices; name one, such as choices.0.message.content")
    is_plain = isinstance(choices[0], dict) and "text" in choices[0]
    return follow_path(choices[0], "text" if is_plain else "message.content")


def _of_batch(response: Any) -> Any:
    """Return the text of a line of a batch's output, or of a response that is a text."""
    if isinstance(response, str):
        return response
    if not isinstance(response, dict) or response.get("status_code") not in (None, 200):
        raise LeftOutError(FAILED)
    return _of_choices(follow_path(response, "body.choices"))


def _of_harness(answers: Any) -> Any:
    """Return the first text that lm-eval logged of a generation."""
    while isinstance(answers, list) and answers:
        answers = answers[0]
    return answers


class Shape(NamedTuple):
    """Lines of JSON as a program writes them: the key that tells them, what is read of it."""

    key: str
    words: str
    text: Callable[[Any], Any]


# Where no field is named and there is no ``text``, the first whose key is there.
SHAPES = (
    Shape("messages", "chats: what the assistant says", _of_chat),
    Shape("choices", "OpenAI's completions: the answer", _of_choices),
    Shape("response", "answers: the response", _of_batch),
    Shape("filtered_resps", "samples of lm-eval: the filtered answer", _of_harness),
    Shape("resps", "samples of lm-eval: the answer", _of_harness),
    Shape("completion", "pairs of prompt and completion: the completion", lambda held: held),
)


def missing_field(field: str, value: Mapping[str, object], advice: str = FIELD_ADVICE) -> str:
    """Say which fields there are instead."""
    if field in value:
        return f"field '{field}' is null"
    return f"field '{field}' is missing; {_offered(value) if value else 'it has none'}: {advice}"


def shape_of(names: Collection[str]) -> Shape | None:
    """Return the shape of an object by its keys; None where it has a text or is of none."""
    return next((one for one in SHAPES if one.key in names and TEXT_FIELD not in names), None)


def text_of(value: dict[str, Any], field: str | None) -> tuple[Any, str]:
    """Return what stands where the text should be, and what that is called."""
    if field is None and (shape := shape_of(value)):
        return shape.text(value[shape.key]), shape.key
    field = TEXT_FIELD if field is None else field
    if "." in field:
        return follow_path(value, field), field
    if value.get(field) is None:
        raise UnusableError(missing_field(field, value))
    return value[field], field
