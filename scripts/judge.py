"""Let a model judge documents of a text: bits per byte of each, and of texts of its own beside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa
import torch

from beyond_perplexity.arguments import COUNT, ITEM, SEED
from beyond_perplexity.decoding.generation import generate
from beyond_perplexity.decoding.options import ANCESTRAL
from beyond_perplexity.schemas.tendencies import JUDGED
from beyond_perplexity.storage.shards import ShardWriter
from beyond_perplexity.tendencies.document_files import DocumentFiles
from beyond_perplexity.tendencies.embedded_documents import Read, chosen_documents, documents_at
from beyond_perplexity.tendencies.judge import (
    Judge,
    JudgedText,
    judged_table,
    open_judge,
    read_judged,
)
from beyond_perplexity.tendencies.pairs import renumbered
from beyond_perplexity.tendencies.tokens import TextView, vocabulary_words
from scripts._job import READING, Given, flag, job, needed, on_device, output, shards

TOKENS_OF_WORD = 8  # of the judge, at most: what is drawn of it is cut to words


def _own_samples(judge: Judge, size: int, given: Given, read: Read) -> list[str]:
    """Draw texts of a judge, which are read as documents are."""
    assert judge.opened
    model, vocabulary = judge.opened
    longest = min(TOKENS_OF_WORD * size, model.context_length or TOKENS_OF_WORD * size)
    how = {"seed": given.seed, "purpose": "judge/own samples", "first": 0, "count": given.most}
    drawn = generate(model, ANCESTRAL, **how, maximum_length=longest)
    texts = pa.array(vocabulary.decode([one.tokens for one in drawn]), pa.string())
    return read(texts).texts().to_pylist()


def _texts(given: Given, judge: Judge) -> Iterator[tuple[str, JudgedText, np.ndarray | None]]:
    raw = TextView(None, given.maximum_tokens, given.minimum_tokens)
    words = vocabulary_words(given.vocabulary) if given.vocabulary else None
    read = replace(raw, words=words).batch
    size = read_judged(given.like)[0][0].size if given.like else None
    files = DocumentFiles(given.documents, given.split, given.first, raw, given.group_column)
    held = [(given.split or "samples", files, files.groups())]
    if given.training_split:
        held.append((given.training_split, files.other_split(given.training_split), None))
    for place, (name, own, groups) in enumerate(held):
        n = sum(batch.num_rows for batch in own.rows("text"))
        # Of either kind of text a stream of its own.
        kind = int(bool(given.like) or place > 0)
        sizes, both = [(n, 0), (0, n)][kind], [(groups, None), (None, None)][kind]
        chosen = chosen_documents(sizes, both, given.most, given.seed)[kind]
        text = JudgedText.of(documents_at(own, chosen, read), judge, size, name)
        size = text.size
        yield name, text, None if groups is None else renumbered(groups[chosen])
    if given.training_split:
        own_samples = _own_samples(judge, text.size, given, read)
        yield "own samples", JudgedText.of(own_samples, judge, text.size, "its own"), None


@job(
    needed("--model", "model folder"),
    shards("--documents", "Parquet files"),
    flag("--split", "split of them that is the reference", nargs="?"),
    flag("--training-split", "split of them that is trained on", nargs="?"),
    flag("--first", "documents of the split: so many, the first ones", ITEM, nargs="?"),
    flag("--group-column", "column with the group of a document", nargs="?"),
    *READING,
    flag("--vocabulary", "closed vocabulary that documents are read in", nargs="?"),
    flag("--like", "of samples: what was made of the reference, whose size is taken", nargs="?"),
    needed("--most", "documents of each text", COUNT),
    flag("--seed", "seed of the choice of documents", SEED, default=0),
    on_device,
    output("--output", "Parquet file to write"),
)
def main(given: Given) -> None:
    torch.set_num_threads(given.threads)
    judge, judged = open_judge(given.model, given.device), dict[str, object]()
    record = given.record(given.determining())
    record |= {"judge": judge.title, "documents": given.most, "judged": judged}
    with ShardWriter(given.output, JUDGED, record) as writer:
        for name, text, groups in _texts(given, judge):
            facts = asdict(text)
            judged[name] = {key: x for key, x in facts.items() if key != "units"}
            writer.write(judged_table(text, groups, name))
