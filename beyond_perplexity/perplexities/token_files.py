"""Files with a row for every token: what a model says of it, and which bytes of the text it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.token_scores import TokenScores
from beyond_perplexity.perplexities.summary import ScoredText, TextKind
from beyond_perplexity.schemas.perplexity import TOKEN_SCORES
from beyond_perplexity.storage.accounts import Account
from beyond_perplexity.storage.shards import check_schema

READ_TOKENS = 1 << 16  # tokens that are read at once
ROUNDED_UP = 1e-3  # nats above 0 that the decimals of an ARPA file may make of a certain token


class TokenDocument(NamedTuple):
    """A document, and what a model says of its tokens."""

    item: ScoredText
    kind: TextKind
    scores: TokenScores


def begin_of(scores: TokenScores) -> int:
    """Return the byte from which on a text is scored; a server may not score the first token."""
    return int(scores.starts[0]) if len(scores.starts) else 0


def tokens_table(
    items: Sequence[ScoredText], kind: TextKind, scores: Sequence[TokenScores]
) -> pa.Table:
    """Turn scores of documents into a table of schema ``token_scores``."""
    counts = np.array([len(one.log_probs) for one in scores], np.int64)
    owner = np.repeat(np.arange(len(items)), counts)
    position = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    content = [len(item.text.encode()) for item in items]
    ends = [np.append(one.starts, size)[1:] for one, size in zip(scores, content, strict=True)]
    last = position == counts[owner] - 1
    first = pa.array(owner, mask=position > 0)
    of_each = {
        name: pa.array([getattr(item, name) for item in items], TOKEN_SCORES.field(name).type)
        for name in ("doc_id", "group", "title", "text")
    }
    columns = {
        **{name: held.take(first if name == "text" else owner) for name, held in of_each.items()},
        "scored_text": pa.repeat(kind, len(owner)),
        "position": position.astype(np.int32),
        "start": np.concatenate([one.starts for one in scores]),
        "end": np.concatenate(ends),
        "token": pa.array(chain.from_iterable(one.tokens for one in scores), pa.string()),
        "log_prob": np.concatenate([one.log_probs for one in scores]),
        "ending": last & np.array([one.ended for one in scores])[owner],
    }
    return pa.table({name: columns[name] for name in TOKEN_SCORES.names}, TOKEN_SCORES)


def read_tokens(path: str, account: Account | None = None) -> Iterator[TokenDocument]:
    """Stream the documents of a file of schema ``token_scores``, each once all of it was read."""
    held, row = TOKEN_SCORES.empty_table(), 1
    with check_schema(path, TOKEN_SCORES) as file:
        for batch in file.iter_batches(batch_size=READ_TOKENS, columns=TOKEN_SCORES.names):
            if account:
                account.read += batch.num_rows
            part = pa.Table.from_batches([batch], TOKEN_SCORES)
            held = pa.concat_tables([held, part]).combine_chunks()
            begins = np.flatnonzero(held.column("position").to_numpy()[1:] == 0) + 1
            cuts = [0, *begins.tolist()]
            for start, end in pairwise(cuts):
                yield _document(path, held.slice(start, end - start), row + start)
            held, row = held.slice(cuts[-1]), row + cuts[-1]
        if len(held):
            yield _document(path, held, row)
        if account:
            account.close(file.metadata.num_rows)


def _document(path: str, table: pa.Table, row: int) -> TokenDocument:
    first = {name: table.column(name)[0].as_py() for name in TOKEN_SCORES.names}
    starts, log_probs, position = (
        table.column(name).to_numpy() for name in ("start", "log_prob", "position")
    )
    size = len((first["text"] or "").encode())
    wrong = {
        "position": position != np.arange(len(position)),
        "text": np.arange(len(position)) == (0 if first["text"] is None else -1),
        "start": (np.diff(starts, prepend=0) < 0) | (starts > size),
        "log_prob": ~(log_probs <= ROUNDED_UP),
    }
    for name, bad in wrong.items():
        if bad.any():
            place = int(np.argmax(bad))
            found = table.column(name)[place].as_py()
            raise InputError(
                f"{path}: row {row + place}: {name} is {found!r:.80}, which follows from no score "
                "of tokens; write the file again (perplexity --per-token)"
            )
    ended = bool(table.column("ending")[-1].as_py())
    scores = TokenScores(log_probs, starts, table.column("token").to_pylist(), ended)
    item = ScoredText(*(first[name] for name in ("doc_id", "text", "group", "title")))
    return TokenDocument(item, first["scored_text"], scores)
