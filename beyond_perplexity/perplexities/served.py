"""Score a text under a model that a server has: what `external` does with models in folders.

The end is scored where its token was named; the first token is not, where nothing comes before it:
then bytes, characters and words are those of the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import islice, tee
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from beyond_perplexity.models.served.journal import Journal
from beyond_perplexity.models.served.protocols import SPECIAL
from beyond_perplexity.models.served.server import ServedModel
from beyond_perplexity.models.token_scores import TokenScores
from beyond_perplexity.perplexities.options import ScoringOptions
from beyond_perplexity.perplexities.score_files import tokens_table
from beyond_perplexity.perplexities.scored_texts import filled_documents
from beyond_perplexity.perplexities.summary import DocumentRow, ScoredText, summarize_rows
from beyond_perplexity.schemas.perplexity import DOCUMENT_SCORES, TOKEN_SCORES
from beyond_perplexity.storage.accounts import Account
from beyond_perplexity.storage.provenance import hash_bytes, run_record
from beyond_perplexity.storage.shards import ShardWriter

_AT_ONCE = 256  # rows of a batch
ONE_TOKEN = "one token, which the server does not score"


def row_of(item: ScoredText, scores: TokenScores) -> DocumentRow:
    """Make the row of a document of the part of it that is scored."""
    content = item.text.encode()[int(scores.starts[0]) :]
    text = content.decode(errors="ignore")
    return DocumentRow(
        item.doc_id,
        "raw",
        item.group,
        item.title,
        math.fsum(scores.log_probs),
        None,
        len(scores.tokens) - scores.ended,
        len(text.split()),
        len(text),
        len(content),
        0,
        int(np.isneginf(scores.log_probs).sum()),
        hash_bytes(content),
        scores.ended,
    )


def served_rows(
    served: ServedModel,
    texts: Iterable[ScoredText],
    account: Account,
    journal: Journal,
    take: Callable[[pa.Table], object] | None = None,
) -> Iterator[list[DocumentRow]]:
    """Score texts by a server, in batches in their order; `take` is given those of tokens."""
    for_rows, for_server = tee(texts)
    named = ((f"{account.file}: document {x.doc_id + 1}", x.text) for x in for_server)
    scored = tqdm(served.score(named, journal), desc="scored", unit=" documents", mininterval=1)
    pairs = ((item, one) for one, item in zip(scored, for_rows, strict=True))
    while part := list(islice(pairs, _AT_ONCE)):
        kept = [pair for pair in part if len(pair[1].tokens) > pair[1].ended]
        account.left_out[ONE_TOKEN] += len(part) - len(kept)
        if take and kept:
            items, scores = zip(*kept, strict=True)
            take(tokens_table(items, "raw", scores))
        yield [row_of(*pair) for pair in kept]


def signature_parts(served: ServedModel, options: ScoringOptions) -> dict[str, object]:
    """Return the parts of the signature of a server's scores; see `docs/which-number.md`."""
    how: dict[str, object] = {"text": "raw", "special": "characters", "unk": "none"}
    how |= {"context": options.context_length or "model", "stride": options.stride or "half"}
    if not served.first:
        how["first"] = False
    return how | options.signed


def _read(
    options: ScoringOptions, account: Account, how: dict[str, object]
) -> Iterator[ScoredText]:
    """Stream the documents; the signature is told where one says what may be a special token."""
    for item in filled_documents(options, None, account):
        if SPECIAL.search(item.text):
            how["special"] = "server"
        yield item


def score_served(options: ScoringOptions) -> tuple[dict[str, Any], pa.Table | None]:
    """Score texts by a server: `summary.measure`'s summary, with ``served``, and rows where asked
    for; finished documents are kept beside their file (`Journal`) until it is written."""
    files = [None if isinstance(options.per_document, bool) else options.per_document]
    files.append(options.per_token)
    paths = [Path(file) for file in files if file]
    account, kept = Account(options.texts, "documents"), list[pa.Table]()
    journal = Journal(paths[0] if paths else None)
    served = ServedModel(options, options.context_length, options.stride)
    # What is entered first is left last: no document comes to a journal that is closed.
    with journal, served, ExitStack() as held:
        how = signature_parts(served, options)
        about: dict[str, Any] = {"url": served.client.url, "model": served.model}
        about |= {"protocol": served.protocol, "beginning": served.before, "end": served.after}
        journal.settings = [about, served.most, options.stride, served.takes_ids]
        script = "beyond_perplexity/commands/perplexity.py"
        record = run_record(script, dict(about)) if paths else {}
        schemas = DOCUMENT_SCORES, TOKEN_SCORES
        writers = [
            held.enter_context(ShardWriter(file, schema, record)).write if file else None
            for file, schema in zip(files, schemas, strict=True)
        ]

        def write(table: pa.Table) -> None:
            if options.per_document:
                kept.append(table)
            if writers[0]:
                writers[0](table)

        texts = _read(options, account, how)
        rows = served_rows(served, texts, account, journal, writers[1])
        ends = bool(served.after)
        summary = summarize_rows(rows, None, how, write=write, count_eos=ends)
        record["signature"] = {"raw": summary["signature"]}
    about |= {"first_token_scored": served.first, "end_scored": ends}
    settled = {"context_length": served.most, "stride": options.stride, "text": "raw"}
    summary |= settled | {"served": about, "special_tokens": None, "spelling_model": None}
    return summary, pa.concat_tables(kept) if kept else None
