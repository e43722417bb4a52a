"""Sentences with their trees as sequences of actions.

The trees are those of ``trees.parquet``: Penn brackets on one line in which every word has a tag
and the root is a phrase. Tags are dropped. T words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from beyond_perplexity.corpus.latent_instances import (
    TOKENS,
    CorpusFiles,
    Instance,
    encode_words,
    find_classes,
)
from beyond_perplexity.corpus.penn import unescape
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Count, Limited
from beyond_perplexity.schemas.corpora import DOCUMENTS, SENTENCES_OF_A_DOCUMENT, TREES
from beyond_perplexity.storage.shards import read_batches
from beyond_perplexity.vocabulary import Vocabulary

ACTIONS = "actions"
SHIFT, REDUCE, FIRST_LABEL = 0, 1, 2
# The Treebank's own label of what has no other; labels that training has not seen become it.
OTHER_LABEL = "X"


def left_out(minimum_words: int) -> str:
    """Say in words which sentences T does not count, if any."""
    said = f"; sentences of fewer than {minimum_words} words are left out"
    return said if minimum_words > 1 else ""


_PART = re.compile(r"[()]|[^\s()]+")


@dataclass(frozen=True)
class SentenceOptions(Limited):
    """Which sentences a model of trees reads, and how.

    Attributes
    ----------
    minimum_words : int
        Shorter sentences are left out everywhere; 2 is what the paper's program does.
    maximum_words : int
        Longer sentences are left out of training and validation, not of the test split.
    unknown_classes : bool
        Unknown words get ids by their shape (capitals, digits, endings) in place of one <unk>.
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
    """Turn the brackets of one tree into actions.

    Raises ValueError when the brackets are unbalanced, there are several roots or none, a phrase
    has no word, or a word has no tag of its own.
    """
    found = ParsedTree([], [], [])
    children: list[int] = []  # of each open phrase
    parts = _PART.findall(tree)
    place, roots = 0, 0
    while place < len(parts):
        if parts[place] == ")":
            _close(found, children)
            place += 1
        elif parts[place] == "(" and parts[place + 2 : place + 3] == ["("]:
            children.append(0)
            found.labelled.append(parts[place + 1])
            place += 2
        elif parts[place] == "(" and parts[place + 3 : place + 4] == [")"]:
            found.words.append(unescape(parts[place + 2]))
            found.binary.append(SHIFT)
            found.labelled.append(SHIFT)
            _adopt(children)
            place += 4
        else:
            raise ValueError(f"'{parts[place]}' is neither a phrase nor a word with its tag")
        roots += not children
    if children or roots != 1:
        raise ValueError(f"{len(children)} brackets are open at the end, and {roots} roots closed")
    return found


def _close(found: ParsedTree, children: list[int]) -> None:
    if not children or not children[-1]:
        raise ValueError("a bracket closes nothing")
    found.binary.extend([REDUCE] * (children.pop() - 1))
    found.labelled.append(REDUCE)
    _adopt(children)


def _adopt(children: list[int]) -> None:
    if children:
        children[-1] += 1


def read_parsed(corpus: CorpusFiles, split: str) -> Iterator[tuple[int, ParsedTree]]:
    """Stream the sentences of one split with their trees.

    Documents without trees are passed over. Nothing is held but a batch of each table.

    Yields `instance_id`: ``doc_id * 65536 + sentence``.

    Raises InputError when a tree cannot be read, or the documents of the trees are not in the order
    of the table of documents.
    """
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
                raise InputError(
                    f"{corpus.trees}: document {number} is not in {corpus.documents}, or out of "
                    "its order; extract the corpus again"
                )
            if row["sentence"] >= SENTENCES_OF_A_DOCUMENT:
                raise InputError(
                    f"{corpus.trees}: document {number} has more than {SENTENCES_OF_A_DOCUMENT} "
                    "sentences; make every tree a document (source.document: tree)"
                )
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
) -> tuple[str, ...]:
    """List the classes of unknown words of the training split, if the options want them.

    Raises InputError when the vocabulary is not one of words.
    """
    if vocabulary.kind != "closed":
        raise InputError("vocabulary: trees are over words; use a closed vocabulary")
    if not options.unknown_classes:
        return ()
    return find_classes((one.words for _, one in read_parsed(corpus, "train")), vocabulary)


def find_labels(corpus: CorpusFiles) -> tuple[str, ...]:
    """List the labels of the training split and `OTHER_LABEL`, sorted."""
    found = {OTHER_LABEL}
    for _, one in read_parsed(corpus, "train"):
        found.update(action for action in one.labelled if isinstance(action, str))
    return tuple(sorted(found))


def read_instances(
    corpus: CorpusFiles,
    split: str,
    encode: Callable[[Sequence[str]], np.ndarray],
    options: SentenceOptions,
    actions: Callable[[ParsedTree], list[int] | None],
) -> Iterator[Instance]:
    """Read sentences with the arrays ``tokens`` and ``actions``.

    `split`: ``"train"``, ``"valid"`` or ``"test"``; `actions`: None: the tree cannot be learnt
    from; it is left out except from the test split.
    """
    for number, one in read_parsed(corpus, split):
        if len(one.words) < options.minimum_words:
            continue
        chosen = actions(one)
        if split != "test" and (chosen is None or len(one.words) > options.maximum_words):
            continue
        ids = encode(one.words)  # (T,)
        yield Instance(number, {TOKENS: ids, ACTIONS: np.array(chosen or [], np.int64)})


def binary_instances(
    corpus: CorpusFiles,
    split: str,
    vocabulary: Vocabulary,
    options: SentenceOptions,
    classes: Sequence[str],
) -> Iterator[Instance]:
    """Read sentences with their binary, unlabelled trees: 2T − 1 actions."""
    return read_instances(
        corpus,
        split,
        lambda words: encode_words(words, vocabulary, classes),
        options,
        lambda one: one.binary,
    )


def labelled_actions(
    one: ParsedTree, labels: Sequence[str], maximum_open: int, maximum_run: int
) -> list[int] | None:
    """Put numbers for the labels of a tree; None when it breaks a limit.

    `labels`: label i has the number `FIRST_LABEL` + i; others count as `OTHER_LABEL`;
    `maximum_open`: phrases that may be open at once; `maximum_run`: phrases that may be opened one
    right after the other.
    """
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
