"""Sentences with their trees as sequences of actions: read from a corpus, or drawn from an RNNG.

The trees are those of ``trees.parquet``: Penn brackets on one line in which every word has a tag
and the root is a phrase. Tags are dropped. T words, R sentences, W actions of the longest, V ids,
D width.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import (
    TOKENS,
    CorpusFiles,
    Instance,
    encode_words,
    find_classes,
)
from beyond_perplexity.corpus.penn import unescape
from beyond_perplexity.errors import InputError
from beyond_perplexity.invariant_tensors import invert, round_up
from beyond_perplexity.models.latent import PADDING, DrawnText, LatentModel, LatentModule
from beyond_perplexity.options import Count, Limited, parse_options
from beyond_perplexity.schemas.corpora import DOCUMENTS, SENTENCES_OF_A_DOCUMENT, TREES
from beyond_perplexity.storage.shards import read_batches
from beyond_perplexity.vocabulary import BOS, EOS, Vocabulary

ACTIONS = "actions"
SHIFT, REDUCE, FIRST_LABEL = 0, 1, 2
# The Treebank's own label of what has no other; labels that training has not seen become it.
OTHER_LABEL = "X"


# A word with its tag, a phrase that opens, a phrase that closes; whatever else there is.
_PART = re.compile(r"\(\s*[^\s()]+\s+([^\s()]+)\s*\)|\(\s*([^\s()]+)|(\))|[^\s()]+|\(")


@dataclass(frozen=True)
class SentenceOptions(Limited):
    """Which sentences a model of trees reads, and how.

    minimum_words: Shorter sentences are left out everywhere; 2 is what the paper's program does.
    maximum_words: Longer sentences are left out of training and validation, not of the test split.
    unknown_classes: Unknown words get ids by their shape (capitals, digits, endings) in place of
        one <unk>.
    """

    minimum_words: Count = 1
    maximum_words: int = 40
    unknown_classes: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.maximum_words < self.minimum_words:
            raise ValueError(f"maximum_words: is {self.maximum_words}, below minimum_words")


class ParsedTree(NamedTuple):
    """What a tree's brackets say."""

    words: list[str]  # As they are in the text of the document
    # `SHIFT` and `REDUCE`, 2T − 1 of them: a node of n children has its n − 1 REDUCEs when it
    # closes; nodes of one child leave no trace
    binary: list[int]
    labelled: list[int | str]  # `SHIFT`, `REDUCE` or, where a node opens, its label


def parse(tree: str) -> ParsedTree:
    """Turn a tree's brackets into actions; unbalanced ones, several roots or none, a phrase without
    a word or a word without a tag of its own are a ValueError."""
    found = ParsedTree([], [], [])
    children: list[int] = []  # of each open phrase
    roots = 0
    for part in _PART.finditer(tree):
        word, label, closing = part.groups()
        if label:
            children.append(0)
            found.labelled.append(label)
            continue
        if word:
            found.words.append(unescape(word))
            found.binary.append(SHIFT)
            found.labelled.append(SHIFT)
        elif closing and children and children[-1]:
            found.binary.extend([REDUCE] * (children.pop() - 1))
            found.labelled.append(REDUCE)
        else:
            raise ValueError(f"'{part[0]}' is neither a phrase nor a word with its tag")
        if children:
            children[-1] += 1
        roots += not children
    if children or roots != 1:
        raise ValueError(f"{len(children)} brackets are open at the end, and {roots} roots closed")
    return found


def read_parsed(corpus: CorpusFiles, split: str) -> Iterator[tuple[int, ParsedTree]]:
    """Stream the trees of a split's sentences, with ``doc_id * 65536 + sentence``; a tree that
    cannot be read, or documents in another order than their table, are an `InputError`."""
    documents = (
        pair
        for batch in read_batches(corpus.documents, DOCUMENTS, ["doc_id", "split"])
        for pair in zip(batch["doc_id"].to_pylist(), batch["split"].to_pylist(), strict=True)
    )
    current: tuple[int, str | None] = (-1, None)
    for batch in read_batches(corpus.trees, TREES, ["doc_id", "sentence", "tree"], 1024):
        for row in batch.to_pylist():
            number = row["doc_id"]
            while current[0] != number:
                current = next(documents, (number, None))
            if current[1] is None:
                fault = f"document {number} is not in {corpus.documents}, or out of its order"
                raise InputError(f"{corpus.trees}: {fault}; extract the corpus again")
            if row["sentence"] >= SENTENCES_OF_A_DOCUMENT:
                fault = f"document {number} has more than {SENTENCES_OF_A_DOCUMENT} sentences"
                advice = "make every tree a document (source.document: tree)"
                raise InputError(f"{corpus.trees}: {fault}; {advice}")
            if current[1] == split:
                yield number * SENTENCES_OF_A_DOCUMENT + row["sentence"], _parse_row(corpus, row)


def _parse_row(corpus: CorpusFiles, row: dict[str, object]) -> ParsedTree:
    try:
        return parse(str(row["tree"]))
    except ValueError as error:
        where = f"{corpus.trees}: document {row['doc_id']}, sentence {row['sentence']}"
        raise InputError(f"{where}: not a tree of phrases, tags and words ({error})") from error


def find_unknown_classes(
    corpus: CorpusFiles, vocabulary: Vocabulary, options: SentenceOptions
) -> list[str]:
    """List the classes of unknown words of the training split, if the options want them, which
    takes a vocabulary of words."""
    if vocabulary.kind != "closed":
        raise InputError("vocabulary: trees are over words; use a closed vocabulary")
    if not options.unknown_classes:
        return []
    return list(find_classes((one.words for _, one in read_parsed(corpus, "train")), vocabulary))


def find_labels(corpus: CorpusFiles) -> tuple[str, ...]:
    """List the labels of the training split and `OTHER_LABEL`, sorted."""
    found = {OTHER_LABEL}
    for _, one in read_parsed(corpus, "train"):
        found.update(action for action in one.labelled if isinstance(action, str))
    return tuple(sorted(found))


def labelled_actions(
    one: ParsedTree, labels: Sequence[str], maximum_open: int, maximum_run: int
) -> list[int] | None:
    """Put `FIRST_LABEL` + i for label i, or `OTHER_LABEL`; None where more than `maximum_open`
    phrases are open at once, or `maximum_run` opened in a row."""
    numbers = {label: number for number, label in enumerate(labels, FIRST_LABEL)}
    found, opened, run = [], 0, 0
    for action in one.labelled:
        if isinstance(action, str):
            action = numbers.get(action, numbers.get(OTHER_LABEL, -1))
            opened, run = opened + 1, run + 1
        else:
            opened, run = opened - (action == REDUCE), 0
        if action < 0 or opened > maximum_open or run > maximum_run:
            return None
        found.append(action)
    return found if found[0] >= FIRST_LABEL else None


class TreeModule(LatentModule):
    """An RNNG or its proposal of binary trees: how it is made and what it reads; ids of
    `unknown_classes` come after those of the vocabulary."""

    options_kind: ClassVar[type[SentenceOptions]]
    annotation = ACTIONS
    shapes = MappingProxyType({"unknown_classes": []})

    @property
    def unknown_classes(self) -> tuple[str, ...]:
        """The classes of unknown words."""
        return tuple(self.shapes["unknown_classes"])

    @property
    def ids(self) -> int:
        """The words and classes of unknown words."""
        return self.vocabulary_size + len(self.unknown_classes)

    @property
    def support(self) -> dict[str, Any]:
        """What is the same in a model and its proposal, as both read it."""
        return dict(self.shapes)

    @classmethod
    def create(
        cls, architecture: Mapping[str, Any], vocabulary: Vocabulary, corpus: CorpusFiles
    ) -> Self:
        """Make an untrained module; see `LatentModule.create`."""
        options = parse_options(cls.options_kind, architecture, "architecture")
        classes = find_unknown_classes(corpus, vocabulary, options)
        return cls(vocabulary.size, architecture, unknown_classes=classes, **cls.labels_of(corpus))

    @classmethod
    def labels_of(cls, corpus: CorpusFiles) -> dict[str, Any]:
        """Return the labels of phrases as an argument, where there are any."""
        return {}

    def actions(self, one: ParsedTree) -> list[int] | None:
        """Return the actions of a tree; None where it cannot be learnt from."""
        return one.binary

    def instances(
        self, corpus: CorpusFiles, split: str, vocabulary: Vocabulary
    ) -> Iterator[Instance]:
        """Read sentences with ``tokens`` and ``actions``; those too long or that cannot be learnt
        from are left out of all splits but ``test``, where the latter have no actions."""
        options = self.options
        for number, one in read_parsed(corpus, split):
            if len(one.words) < options.minimum_words:
                continue
            chosen = self.actions(one)
            if split != "test" and (chosen is None or len(one.words) > options.maximum_words):
                continue
            ids = encode_words(one.words, vocabulary, self.unknown_classes)  # (T,)
            yield Instance(number, {TOKENS: ids, ACTIONS: np.array(chosen or [], np.int64)})


# ---- what the models write ----


class DrawnSentences(NamedTuple):
    """What was drawn."""

    actions: Tensor  # int64, (R, W): rows of z, `PADDING` after their ends
    words: Tensor  # int64, (R, at least T)
    lengths: Tensor  # int64, (R,): T of each
    truncated: Tensor  # bool, (R,)


def draw_words(
    contexts: Tensor, weight: Tensor, bias: Tensor, may_end: Tensor, numbers: Tensor
) -> Tensor:
    """Draw a word after each context, (R, D), by numbers in [0, 1), (R,): int64, (R,), ``</s>``
    only where it `may_end`, bool, (R,); `weight` is (V, D), `bias` (V,)."""
    padded = round_up(contexts)  # (R', D)
    logits = (padded @ weight.T + bias)[: len(contexts)].double()  # (R, V)
    logits[:, BOS] = -torch.inf
    logits[:, EOS].masked_fill_(~may_end, -torch.inf)
    return invert(logits.softmax(1).cumsum(1), numbers[:, None])[:, 0]


def close_rows(actions: Tensor, missing: Tensor) -> Tensor:
    """Put as many REDUCEs, (R,), after the last action of rows, (R, W): int64, (R, W')."""
    count = (actions != PADDING).sum(1)  # (R,)
    width = int((count + missing).max())
    position = torch.arange(width, device=actions.device)  # (W',)
    wide = actions.new_full((len(actions), width), PADDING)  # (R, W')
    kept = min(width, actions.shape[1])
    wide[:, :kept] = actions[:, :kept]
    closing = (position >= count[:, None]) & (position < (count + missing)[:, None])  # (R, W')
    return torch.where(closing, REDUCE, wide)


class TreeModel(TreeModule, LatentModel):
    """An RNNG: what it says of its trees, and the sentences that it draws."""

    text_draws = 2  # of an action: which one, and which word

    @property
    def t_definition(self) -> str:
        """What `n_tokens` counts, in words, and which sentences are left out."""
        least = self.options.minimum_words
        said = f"; sentences of fewer than {least} words are left out" if least > 1 else ""
        return super().t_definition + said

    @abstractmethod
    def draw_trees(self, count: int, lots: Iterator[Tensor], maximum_words: int) -> DrawnSentences:
        """Draw sentences with their trees, by two numbers an action, (R, 2)."""

    def draw_texts(
        self, count: int, lots: Iterator[Tensor], maximum_words: int, vocabulary: Vocabulary
    ) -> Iterator[DrawnText]:
        """Draw sentences; class i of unknown words has the id V + i, and is written by its name."""
        drawn = self.draw_trees(count, lots, maximum_words)
        for row in zip(*(part.cpu().numpy() for part in drawn), strict=True):
            actions, words, length, cut = row
            arrays = {TOKENS: words[:length], ACTIONS: actions[actions != PADDING]}
            spelled = _spelled(arrays[TOKENS], vocabulary, self.unknown_classes)
            yield spelled, arrays, bool(cut)


def _spelled(ids: np.ndarray, vocabulary: Vocabulary, classes: Sequence[str]) -> list[str]:
    known = np.where(ids < vocabulary.size, ids, vocabulary.UNK)  # (T,)
    words = vocabulary.decode([known])[0].split(" ") if len(ids) else []
    for position in np.flatnonzero(ids >= vocabulary.size).tolist():
        words[position] = classes[ids[position] - vocabulary.size]
    return words
