"""How far two models of one vocabulary agree, token by token: divergences, and equal argmax."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from beyond_perplexity.inference import intervals
from beyond_perplexity.models import likelihoods
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.perplexities.summary import ScoredText, unit_key
from beyond_perplexity.schemas.perplexity import MODEL_AGREEMENT
from beyond_perplexity.vocabulary import Vocabulary

AGREEMENT_MEASURES = ("KL(first || second)", "KL(second || first)", "same argmax")
_LOGIT_ROWS = 512  # positions whose logits are held at once, of both models, in float64


def _divergences(first: Tensor, second: Tensor) -> Tensor:
    """Return both divergences, nats, and whether the argmax is one, (n, 3), of logits (n, V)."""
    p, q = (logits.double().log_softmax(-1) for logits in (first, second))  # (n, V) each
    found = [
        torch.where(one > -torch.inf, one.exp() * (one - two), 0.0).sum(-1)
        for one, two in ((p, q), (q, p))
    ]
    return torch.stack([*found, (p.argmax(-1) == q.argmax(-1)).double()], -1)


def _run(
    first: LanguageModel, second: LanguageModel, windows: Sequence[likelihoods.ScoreWindow]
) -> Iterator[np.ndarray]:
    inputs = torch.from_numpy(likelihoods.padded_windows(windows)[0])  # (B, T)
    chunks = (one.next_logits(inputs.to(one.device), _LOGIT_ROWS) for one in (first, second))
    values = torch.cat([_divergences(*pair) for pair in zip(*chunks, strict=True)])  # (B T, 3)
    yield from likelihoods.counted_parts(windows, values)


def agreement(
    models: tuple[LanguageModel, LanguageModel],
    names: tuple[str, str],
    vocabulary: Vocabulary,
    texts: Iterable[ScoredText],
    context_length: int | None = None,
    stride: int | None = None,
) -> pa.Table:
    """Compare the predictions of two models of one vocabulary in the shorter context, ends
    included: ``model_agreement``, with 95% intervals over groups or pages, else documents."""
    limits = [model.eval().context_length for model in models]
    known = [limit for limit in (context_length, *limits) if limit is not None]
    window = likelihoods.check_window(models[0], min(known, default=None), stride)
    sums, counts, groups = array("d"), array("q"), array("q")
    stream = iter(texts)
    while part := list(islice(stream, likelihoods.POOL)):
        encoded = vocabulary.encode([item.text for item in part])
        found = likelihoods.run_windows(encoded, partial(_run, *models), *window)
        for item, (ids, values) in zip(part, found, strict=True):
            sums.extend(np.sum([own.sum(0) for _, own in values], 0).tolist())
            counts.append(len(ids) + 1)
            groups.append(unit_key(item, len(groups)))
    columns = np.asarray(sums).reshape(-1, len(AGREEMENT_MEASURES)).T  # (3, D)
    *held, sizes = intervals.sum_groups(np.asarray(groups), *columns, np.asarray(counts))
    rows = []
    for measure, total in zip(AGREEMENT_MEASURES, held, strict=True):
        test = intervals.ratio_test(total, sizes).interval
        row: dict[str, Any] = {
            "first": names[0],
            "second": names[1],
            "measure": measure,
            "note": test.few_groups(),
        }
        row |= test.columns("value", "low", "high") | {"tokens": int(sizes.sum())}
        row |= {"documents": len(counts), "groups": test.groups, "groups_effective": test.effective}
        rows.append(row)
    return pa.Table.from_pylist(rows, MODEL_AGREEMENT)
