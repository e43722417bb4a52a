"""Let a model judge documents of a text: bits per byte of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace

import numpy as np
import torch

from beyond_perplexity.arguments import COUNT, ITEM, SEED
from beyond_perplexity.schemas.tendencies import JUDGED
from beyond_perplexity.storage.shards import ShardWriter
from beyond_perplexity.tendencies.document_files import DocumentFiles
from beyond_perplexity.tendencies.embedded_documents import chosen_documents, documents_at
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
