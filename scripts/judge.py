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
from beyond_perplexity.foreign_text import remark
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
from beyond_perplexity.vocabulary import SPECIAL_TOKENS, UNK
from scripts._job import READING, Given, flag, job, needed, on_device, output, shards

TOKENS_OF_WORD = 8  # of the judge, at most: what is drawn of it is cut to words


def _own_samples(judge: Judge, size: int, given: Given, read: Read) -> tuple[list[str], int]:
    """Draw texts of a judge, which are read as documents are; count those that are cut too soon."""
    assert judge.opened
    model, vocabulary = judge.opened
    longest = size * (1 if vocabulary.kind == "closed" else TOKENS_OF_WORD)
    how = {"seed": given.seed, "purpose": "judge/own samples", "first": 0, "count": given.most}
    memory = given.memory_mb and given.memory_mb * 10**6
    longest = min(longest, model.context_length or longest)
    drawn = list(generate(model, ANCESTRAL, **how, maximum_length=longest, memory=memory))
    texts = vocabulary.decode([one.tokens for one in drawn])
    both = zip(drawn, texts, strict=True)
    cut = sum(not one.finished and len(text.split()) < size for one, text in both)
    return read(pa.array(texts, pa.string())).texts().to_pylist(), cut


def _control(judge: Judge, reference: list[str], size: int, given: Given, read: Read) -> JudgedText:
    """Let a judge's own samples be judged; none are kept where they are no control."""
    assert judge.opened
    words = {word for document in reference for word in document.split()} - {SPECIAL_TOKENS[UNK]}
    lacks_words = any(UNK in ids for ids in judge.opened[1].encode(sorted(words)))
    texts, cut = _own_samples(judge, size, given, read)
    text = JudgedText.of([] if cut else texts, judge, size, "its own samples")
    if cut:
        why = f"{cut:,} of {len(texts):,} are cut before they have {size} words"
    elif text.unknown and lacks_words:
        why = "it writes <unk> where documents have words that it does not know"
    else:
        return text
    remark(f"judge {judge.title}: its own samples are no control here: {why}")
    return replace(text, units=text.units[:0])


def _texts(given: Given, judge: Judge) -> Iterator[tuple[str, JudgedText, np.ndarray | None]]:
    raw = TextView(None, given.maximum_tokens, given.minimum_tokens)
    words = vocabulary_words(given.vocabulary) if given.vocabulary else None
    read = replace(raw, words=words).batch
    size = read_judged(given.like)[0][0].size if given.like else None
    files = DocumentFiles(given.documents, given.split, given.first, raw, given.group_column)
    held = [(given.split or "samples", files, files.groups())]
    if given.training_split:
        held.append((given.training_split, files.other_split(given.training_split), None))
    reference: list[str] = []
    for place, (name, own, groups) in enumerate(held):
        n = sum(batch.num_rows for batch in own.rows("text"))
        # Of either kind of text a stream of its own.
        kind = int(bool(given.like) or place > 0)
        sizes, both = [(n, 0), (0, n)][kind], [(groups, None), (None, None)][kind]
        chosen = chosen_documents(sizes, both, given.most, given.seed)[kind]
        texts = documents_at(own, chosen, read)
        reference = reference or texts
        text = JudgedText.of(texts, judge, size, name)
        size = text.size
        yield name, text, None if groups is None else renumbered(groups[chosen])
    if given.training_split:
        yield "own samples", _control(judge, reference, text.size, given, read), None


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
    flag("--memory-mb", "of the job, for the judge's own samples", COUNT),
    flag("--seed", "seed of the choice of documents", SEED, default=0),
    on_device,
    output("--output", "Parquet file to write"),
)
def main(given: Given) -> None:
    torch.set_num_threads(given.threads)
    judge, judged = open_judge(given.model, given.device), list[dict[str, object]]()
    record = given.record(given.determining())
    record |= {"judge": judge.title, "documents": given.most, "judged": judged}
    with ShardWriter(given.output, JUDGED, record) as writer:
        for name, text, groups in _texts(given, judge):
            facts = {key: x for key, x in asdict(text).items() if key != "units"}
            judged.append({"name": name, **facts})
            writer.write(judged_table(text, groups, name))
