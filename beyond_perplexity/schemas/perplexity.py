"""The course of a training; what a model says of each document, and how two models differ in it."""

from __future__ import annotations

from beyond_perplexity.schemas import columns, flags, floats, int64s, strings

# One row per validation and split. Without a likelihood there is no perplexity; with distortions of
# the training there is a contrastive entropy, nats a sentence: of the split valid, and as train of
# a fixed part of the training split. The phase of a proposal is fit, and then wake, whose loss is
# −log p̂(x) of its model, nats per prediction (training/wake.py); all others have fit alone.
TRAINING = columns(
    "training",
    int64s("step"),
    floats("epoch"),
    strings("split"),
    floats("loss perplexity contrastive_entropy learning_rate seconds"),
    strings("phase"),
)


# One row per document and text that it is scored on; see perplexities/summary.py. Log-likelihoods
# are in nats and, if `ended`, have the end of the document; the counts never do. A group is what a
# split keeps whole, or what the user says; the title is that of the page.
DOCUMENT_SCORES = columns(
    "document_scores",
    int64s("doc_id"),
    strings("scored_text group title"),
    floats("log_likelihood log_likelihood_open_vocabulary"),
    int64s("tokens words characters bytes unknown impossible text_hash"),
    flags("ended"),
)

# One row per model, whose `second` is null, and one per pair of models that are scored on the same
# text; see perplexities/paired.py. All in bits per byte, over groups or pages where there are any;
# limits by document stand beside them then.
PERPLEXITY_DIFFERENCES = columns(
    "perplexity_differences",
    strings("scored_text first second"),
    floats("value low high low_by_document high_by_document p_value p_adjusted detectable"),
    int64s("documents groups"),
    floats("groups_effective"),
    flags("open_vocabulary"),
    strings("note"),
)
