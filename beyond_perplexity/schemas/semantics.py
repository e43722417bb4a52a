"""What models predict in sentences, and how near in meaning it is to what was written."""

from __future__ import annotations

import pyarrow as pa

from beyond_perplexity.schemas.columns import columns

# The texts of a sentence that are compared with its `target`; `partner` (the prediction against the
# target of an unrelated sentence) is the floor.
PREDICTED, SAMPLED, CONTINUED, PARTNER = "predicted", "sampled", "continued", "partner"

# One row per sentence. Texts are tokens of the corpus joined by one blank; a predicted `</s>` or
# `<unk>` is printed so and matches nothing. `samples` are independent draws at every place, given
# the true words before it; `continued` is null where nothing was continued, `partner` where the
# split has no unrelated sentence. `unknown_*` count tokens of the model that are `<unk>`.
# `log_prob` is that of the target in its document, without `</s>`, in nats. `aligned`: tokens of
# the model are words, so that the i-th of `predicted` stands for the i-th of `target`.
PREDICTIONS = columns(
    "predictions",
    split=pa.string(),
    unit_id=pa.int64(),
    group=pa.string(),
    sentence=pa.int32(),
    words=pa.int32(),
    target=pa.string(),
    predicted=pa.string(),
    samples=pa.list_(pa.string()),
    continued=pa.string(),
    partner=pa.string(),
    unknown_target=pa.int32(),
    unknown_predicted=pa.int32(),
    log_prob=pa.float64(),
    aligned=pa.bool_(),
)
