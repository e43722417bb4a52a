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

END_OF_THOUGHT = "</think>"
_ANSWER = "\ue000"  # a private character, in the place of an answer


class Dialogue(NamedTuple):
    """What a model reads and writes around thoughts and answers."""

    model: LanguageModel  # whose softmax is over all that it can write
    vocabulary: Vocabulary
    ask: Callable[[str], np.ndarray]  # ids, int64, up to where the model goes on, of a prompt
    marker: np.ndarray  # int64, (m,): ids of the end of a thought
    between: str  # what follows the marker before the answer
    turn: np.ndarray  # int64, (t,): ids that end the answer

    def answer(self, text: str) -> np.ndarray:
        """Return the ids, int64, of what follows a thought: the answer and the end of the turn."""
        return np.concatenate([_ids(self.vocabulary, self.between + text), self.turn])


def _ids(vocabulary: Vocabulary, text: str) -> np.ndarray:
    return np.asarray(vocabulary.encode([text])[0], np.int64)


def open_dialogue(
    opened: OpenedModel, model: LanguageModel, end: str, between: str | None
) -> Dialogue:
    """Find how a model is asked: by its chat template, or with the prompt as it is.

    `end` is the end-of-thought marker. Without a template a document begins with the prompt, and
    the end of the document ends the answer. `between` is what stands between marker and answer;
    None: an empty line where there is a template, else nothing.
    """
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

        return Dialogue(model, vocabulary, ask, marker, between or "", np.array([EOS]))
    said = template([{"role": "user", "content": "a"}, {"role": "assistant", "content": _ANSWER}])
    after = _ids(vocabulary, said.rpartition(_ANSWER)[2])[:1]

    def ask_chat(prompt: str) -> np.ndarray:
        asked = template([{"role": "user", "content": prompt}], add_generation_prompt=True)
        return _ids(vocabulary, asked)

    turn = after if len(after) else np.array([EOS])
    between = "\n\n" if between is None else between
    return Dialogue(model, vocabulary, ask_chat, marker, between, turn)


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
