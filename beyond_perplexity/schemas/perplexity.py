"""The course of a training; what a model says of each document, and how two models differ in it."""

from __future__ import annotations

from beyond_perplexity.schemas import columns, flags, floats, int32s, int64s, strings

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

# One row per token of each document, in the order of the text; see perplexities/score_files.py. A
# token has the bytes [start, end) of the scored UTF-8 text, and the tokens of a text tile it; the
# end of the document has none. The text stands at the first token of each document alone.
TOKEN_SCORES = columns(
    "token_scores",
    int64s("doc_id"),
    strings("scored_text group title text"),
    int32s("position"),
    int64s("start end"),
    strings("token"),
    floats("log_prob"),
    flags("ending"),
)

# One row per model, whose `second` is null, and one per pair of models that are scored on the same
# text; see perplexities/paired.py. All in bits per byte, over groups or pages where there are any;
# limits by document stand beside them then.
PERPLEXITY_DIFFERENCES = columns(
    "perplexity_differences",
    strings("scored_text first second"),
    floats("value low high low_by_document high_by_document p_value p_adjusted detectable power"),
    int64s("documents groups"),
    floats("groups_effective"),
    flags("open_vocabulary"),
    strings("note"),
)

# One row per part of the difference of two models, of every split, and first one for the whole; see
# perplexities/parts.py. Bits per byte of the whole text, which add up, with the paired interval of
# the difference; `within` is the difference in bits per byte of the part itself.
PERPLEXITY_PARTS = columns(
    "perplexity_parts",
    strings("scored_text first second split part"),
    int64s("bytes documents groups"),
    floats(
        "first_bits second_bits value low high p_value p_adjusted within within_low within_high"
    ),
    strings("note"),
)

# One row per measure of how far two models of one vocabulary agree, token by token; see
# perplexities/agreement.py. Divergences are in nats a token.
MODEL_AGREEMENT = columns(
    "model_agreement",
    strings("first second measure"),
    floats("value low high"),
    int64s("tokens documents groups"),
    floats("groups_effective"),
    strings("note"),
)

# One row per word of each document, and one for its end; see perplexities/words.py. Natural
# logarithms: of the tokens of the word, and of the word with the blank behind it, which no other
# word could have.
WORD_SURPRISALS = columns(
    "word_surprisals",
    int64s("doc_id"),
    strings("group title"),
    int32s("position"),
    int64s("start end"),
    strings("word"),
    floats("log_prob_tokens log_prob surprisal"),
)
