"""How a model is asked, and where its thoughts and answers begin and end, in its token ids."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.registry import OpenedModel
from beyond_perplexity.storage.inputs import told
from beyond_perplexity.vocabulary import BOS, EOS, UNK, Vocabulary

_ANSWER = "\ue000"  # a private character, in the place of an answer


class Dialogue(NamedTuple):
    """What a model reads and writes around thoughts and answers."""

    model: LanguageModel  # whose softmax is over all that it can write
    vocabulary: Vocabulary
    ask: Callable[[str], np.ndarray]  # ids, int64, up to where the model goes on, of a prompt
    marker: np.ndarray  # int64, (m,): ids of the end of a thought
    empty: np.ndarray  # int64, (e,): ids of a thought of no content, with the marker
    between: str  # what follows the marker before the answer
    turn: np.ndarray  # int64, (t,): ids that end the answer

    def answer(self, place: str, text: str) -> np.ndarray:
        """Return the ids, int64, of the answer after a thought and the end of the turn; `place` is
        for errors."""
        found = _ids(self.vocabulary, self.between + text)
        if UNK in found:
            raise InputError(
                f"{place}: the model cannot write the answer {text!r:.60}, as its vocabulary lacks "
                "a word of it; leave the row out"
            )
        return np.concatenate([found, self.turn])


def _ids(vocabulary: Vocabulary, text: str) -> np.ndarray:
    return np.asarray(vocabulary.encode([text])[0], np.int64)


def open_dialogue(
    opened: OpenedModel, model: LanguageModel, end: str, between: str | None
) -> Dialogue:
    """Find how a model is asked; without a chat template a document begins with the prompt, and
    `between`, None, is an empty line after the marker `end` only where there is a template."""
    vocabulary: Any = opened.vocabulary
    template = None
    if hasattr(vocabulary, "with_special_tokens"):
        vocabulary = vocabulary.with_special_tokens()
        held: Any = model
        model = held.with_impossible(vocabulary.impossible)
        template = _template(opened.description["source"])
    marker = _ids(vocabulary, end)
    if not len(marker) or UNK in marker:
        raise InputError(
            f"end of thought: the model cannot write {end!r}; name what ends its thoughts"
        )
    if template is None:

        def ask(prompt: str) -> np.ndarray:
            return np.concatenate([[BOS], _ids(vocabulary, prompt)]).astype(np.int64)

        return Dialogue(model, vocabulary, ask, marker, marker, between or "", np.array([EOS]))
    said = template([{"role": "user", "content": "a"}, {"role": "assistant", "content": _ANSWER}])
    after = _ids(vocabulary, said.rpartition(_ANSWER)[2])[:1]

    def asked(prompt: str, **options: bool) -> str:
        said = [{"role": "user", "content": prompt}]
        return template(said, add_generation_prompt=True, **options)

    def ask_chat(prompt: str) -> np.ndarray:
        return _ids(vocabulary, asked(prompt))

    # Templates that can turn thoughts off say what stands for none: Qwen3's <think> and </think>.
    without, plain = asked("a", enable_thinking=False), asked("a")
    content, ended, _ = without[len(plain) :].partition(end)
    empty = content if ended and without.startswith(plain) else ""
    turn = after if len(after) else np.array([EOS])
    between = "\n\n" if between is None else between
    ids = np.concatenate([_ids(vocabulary, empty), marker]).astype(np.int64)
    return Dialogue(model, vocabulary, ask_chat, marker, ids, between, turn)


def _template(source: dict[str, Any]) -> Callable[..., str] | None:
    """Return what renders a conversation as the model's tokenizer does; None: it has none."""
    from transformers import AutoTokenizer  # late: it takes a second

    path, revision = source["path"], source.get("revision")
    with told(f"{path}: holds no tokenizer with a chat template to load"):
        tokenizer: Any = AutoTokenizer.from_pretrained(
            path, revision=revision or "main", trust_remote_code=False, local_files_only=True
        )
    if not tokenizer.chat_template:
        return None

    def render(messages: list[dict[str, str]], **options: bool) -> str:
        with told(f"{Path(path)}: its chat template cannot be rendered"):
            text: str = tokenizer.apply_chat_template(messages, tokenize=False, **options)
        return text

    return render
