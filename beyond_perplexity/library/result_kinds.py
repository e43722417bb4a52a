"""The kinds of results that a run leaves in its folder: where they are, and what a row is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ResultKind:
    """A kind of results.

    Attributes
    ----------
    words : str
        What a row is.
    files : tuple of str
        Where its files are below the folder of results; a name in braces is one part of a path and
        becomes a column. Of what several of them tell about one `owner`, the first counts.
    schema : str
        Of the files, as ``module:NAME`` in `schemas`; empty for the JSON files of perplexities.
    owner : str
        The column whose values are looked for in the earlier `files`.
    without : tuple of str
        Names of files that the pattern fits and that are of another kind.
    """

    words: str
    files: tuple[str, ...]
    schema: str = ""
    owner: str = ""
    without: tuple[str, ...] = ()


def _estimated(words: str, name: str, schema: str) -> ResultKind:
    return ResultKind(words, (f"estimates/{{model}}/{{proposal}}/{name}.parquet",), schema)


RESULT_KINDS = {
    "perplexity": ResultKind(
        "a perplexity, or bits, of a model on a text, with interval and N",
        ("perplexity/{model}.json",),
    ),
    "perplexity_documents": ResultKind(
        "log-likelihood and lengths of a document under a model",
        ("perplexity/{model}.parquet",),
        "perplexity:DOCUMENT_SCORES",
    ),
    "perplexity_differences": ResultKind(
        "difference of two models in bits per byte, tested",
        ("perplexity_differences/{corpus}.parquet",),
        "perplexity:PERPLEXITY_DIFFERENCES",
    ),
    "tendencies": ResultKind(
        "a measure of a body of text against human text, with floor and p",
        (
            "embeddings/{corpus}/measures.parquet",
            "tendencies/{model}/{decoding}/measures.parquet",
        ),
        "tendencies:TENDENCY_MEASURES",
        owner="source",
    ),
    "tendencies_raw": ResultKind(
        "the same of the texts as they are, no word read as unknown",
        ("tendencies/{model}/{decoding}/raw.parquet",),
        "tendencies:TENDENCY_MEASURES",
    ),
    "sample_size": ResultKind(
        "a measure of random subsets of n documents",
        ("tendencies/{model}/{decoding}/sample_size.parquet",),
        "tendencies:SAMPLE_SIZE",
    ),
    "sensitivity": ResultKind(
        "the smallest shift that n documents would show",
        ("embeddings/{corpus}/sensitivity.parquet", "references/{corpus}/sensitivity.parquet"),
        "tendencies:SENSITIVITY",
        owner="corpus",
    ),
    "estimates": _estimated(
        "an estimate of the perplexity of a latent model", "estimates", "estimates:ESTIMATES"
    ),
    "estimate_curves": _estimated(
        "an estimate from fewer samples", "curves", "estimates:IMPORTANCE_CURVES"
    ),
    "estimate_diagnostics": _estimated(
        "how far to trust an instance", "diagnostics", "estimates:IMPORTANCE_DIAGNOSTICS"
    ),
    "estimate_gaps": _estimated(
        "how far a setting is off on texts of the model", "gaps", "estimates:IMPORTANCE_GAPS"
    ),
    "contrastive": ResultKind(
        "contrastive entropy, its ratio, or cross-entropy of a model",
        ("contrastive/{corpus}/{model}.parquet",),
        "contrastive:CONTRASTS",
        without=("differences",),
    ),
    "contrastive_differences": ResultKind(
        "difference of two models in it, tested",
        ("contrastive/{corpus}/differences.parquet",),
        "contrastive:CONTRAST_DIFFERENCES",
    ),
    "contrastive_pairs": ResultKind(
        "accuracy of a model on pairs of a phenomenon",
        ("contrastive/pairs/{pairs}/{model}.parquet",),
        "contrastive:PAIR_CONTRASTS",
    ),
    "partitions": ResultKind(
        "log Z of a length of sentences under a model without a likelihood",
        ("partitions/{model}.parquet",),
        "contrastive:PARTITIONS",
    ),
    "semantics": ResultKind(
        "how near in meaning a model's predictions are to what is there",
        ("semantics/{corpus}/{model}.parquet",),
        "semantics:SEMANTICS",
        without=("differences", "correlations"),
    ),
    "semantic_differences": ResultKind(
        "difference of two models in it, tested",
        ("semantics/{corpus}/differences.parquet",),
        "semantics:SEMANTIC_DIFFERENCES",
    ),
    "semantic_probes": ResultKind(
        "what a measure notices of a changed sentence",
        ("semantics/{corpus}/probes/{evaluator}.parquet",),
        "semantics:PROBES",
    ),
    "human_correlations": ResultKind(
        "correlation of a measure with scores of people",
        ("semantics/{corpus}/human/{evaluator}.parquet",),
        "semantics:HUMAN_CORRELATIONS",
    ),
    "relations": ResultKind(
        "a measure of any subject, of a model and a decoding",
        ("relations/{corpus}/measures.parquet",),
        "relations:RELATION_MEASURES",
    ),
    "relation_correlations": ResultKind(
        "rank correlation of two measures",
        ("relations/{corpus}/correlations.parquet",),
        "relations:RELATION_CORRELATIONS",
    ),
    "orders": ResultKind(
        "two models that perplexity and another measure order otherwise",
        ("relations/{corpus}/orders.parquet",),
        "relations:RELATION_ORDERS",
    ),
    "training": ResultKind(
        "a point of the curve of a training",
        ("models/{model}/training.parquet",),
        "training:TRAINING",
    ),
}
