"""Tables and pages for a reader.

`TABLES` has a row for every table of every paper, `INPUTS` one for every kind of files that tables
and figures are made of; `tabulate` makes a table by its name. A new table is a function in a file
of its own and a row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from beyond_perplexity.figures.exhibit import Exhibit, make_exhibit
from beyond_perplexity.figures.titles import with_data, without_titles
from beyond_perplexity.report.importance_rows import IMPORTANCE_TABLES
from beyond_perplexity.report.semantic_rows import SEMANTIC_TABLES

if TYPE_CHECKING:
    from beyond_perplexity.figures.labels import Labels
    from beyond_perplexity.options import Rows
    from beyond_perplexity.report.layout import Table


class Input(NamedTuple):
    """A kind of files, given with the flag of its name.

    Attributes
    ----------
    help : str
        What the files are.
    schema : str
        Of Parquet files, ``module:NAME``; the others are JSON.
    named_by_folder : bool
        Whether the folder of a file names the model; a JSON object goes by its own name else.
    lists : bool
        Whether the JSON files hold lists, which are joined.
    reader : str
        ``module:function`` that reads files too large to be read whole; it takes their paths.
    """

    help: str
    schema: str = ""
    named_by_folder: bool = False
    lists: bool = False
    reader: str = ""

    @staticmethod
    def flag(kind: str) -> str:
        """Return the flag that files of a kind are given with."""
        return f"--{kind.replace('_', '-')}"


_SCHEMAS = "beyond_perplexity.schemas"
_EXAMPLES = "beyond_perplexity.report.examples"
# Where the files are: `planning.report.Report`.
INPUTS: Rows[Input] = {
    "measures": Input("measures of every body of text", f"{_SCHEMAS}.tendencies:TENDENCY_MEASURES"),
    "embedding_measures": Input(
        "measures of every body of text, with those of embedded documents",
        f"{_SCHEMAS}.tendencies:TENDENCY_MEASURES",
    ),
    "raw_measures": Input(
        "measures in raw text of every body of text", f"{_SCHEMAS}.tendencies:TENDENCY_MEASURES"
    ),
    "resamples": Input(
        "measures of resamples of the training set", f"{_SCHEMAS}.tendencies:TENDENCY_MEASURES"
    ),
    "curves": Input(
        "curves of every body of text and of the test set", f"{_SCHEMAS}.tendencies:CURVES"
    ),
    "sample_size": Input("measures of ever more documents", f"{_SCHEMAS}.tendencies:SAMPLE_SIZE"),
    "sensitivity": Input("smallest detectable shifts", f"{_SCHEMAS}.tendencies:SENSITIVITY"),
    "models": Input("model.json of every model", named_by_folder=True),
    "perplexities": Input("perplexity of every model, JSON"),
    "perplexity_differences": Input(
        "differences of models in bits per byte", f"{_SCHEMAS}.perplexity:PERPLEXITY_DIFFERENCES"
    ),
    "training": Input(
        "training curves of every model", f"{_SCHEMAS}.training:TRAINING", named_by_folder=True
    ),
    "estimates": Input("estimates of every proposal", f"{_SCHEMAS}.estimates:ESTIMATES"),
    "beside": Input(
        "scores of models without latent variables on the same instances",
        f"{_SCHEMAS}.draws:INSTANCE_SCORES",
    ),
    "costs": Input("seconds of every job that draws", f"{_SCHEMAS}.draws:DRAW_COSTS"),
    "posteriors": Input(
        "latents under the posterior and under every proposal", f"{_SCHEMAS}.draws:POSTERIOR"
    ),
    "choices": Input(
        "estimates of every proposal on the split that chooses", f"{_SCHEMAS}.estimates:ESTIMATES"
    ),
    "importance_instances": Input(
        "estimates of every instance", f"{_SCHEMAS}.estimates:IMPORTANCE_DIAGNOSTICS"
    ),
    "importance_curves": Input(
        "estimates of ever more samples", f"{_SCHEMAS}.estimates:IMPORTANCE_CURVES"
    ),
    "replicates": Input(
        "estimates of disjoint samples", f"{_SCHEMAS}.estimates:IMPORTANCE_REPLICATES"
    ),
    "gaps": Input(
        "simulated documents estimated from both sides", f"{_SCHEMAS}.estimates:IMPORTANCE_GAPS"
    ),
    "example_samples": Input(
        "a shard of samples of every body of text", reader=f"{_EXAMPLES}:read_example_samples"
    ),
    "example_documents": Input(
        "documents of the corpus", reader=f"{_EXAMPLES}:read_example_documents"
    ),
    "latents": Input("latents of an instance of every model, JSON", lists=True),
    "contrasts": Input("contrastive entropy of every model", f"{_SCHEMAS}.contrastive:CONTRASTS"),
    "contrast_differences": Input(
        "differences of models in contrastive entropy",
        f"{_SCHEMAS}.contrastive:CONTRAST_DIFFERENCES",
    ),
    "pair_contrasts": Input(
        "brought pairs under every model, in a folder with the name of the pairs",
        reader="beyond_perplexity.report.contrastive_pairs:read_pair_contrasts",
    ),
    "sentence_models": Input(
        "model.json of every model that is trained against distorted sentences",
        named_by_folder=True,
    ),
    "partitions": Input(
        "log Z by length of every model without likelihood", f"{_SCHEMAS}.contrastive:PARTITIONS"
    ),
    "given_lengths": Input("perplexity given the lengths of every model without likelihood, JSON"),
    "semantics": Input(
        "measures of the predictions of every model", f"{_SCHEMAS}.semantics:SEMANTICS"
    ),
    "semantic_differences": Input(
        "differences of models in these measures",
        f"{_SCHEMAS}.semantics:SEMANTIC_DIFFERENCES",
    ),
    "semantic_correlations": Input(
        "correlations of these measures", f"{_SCHEMAS}.semantics:SEMANTIC_CORRELATIONS"
    ),
    "probes": Input("what every evaluator notices", f"{_SCHEMAS}.semantics:PROBES"),
    "human_correlations": Input(
        "correlations of every evaluator with human scores",
        f"{_SCHEMAS}.semantics:HUMAN_CORRELATIONS",
    ),
    "human_scores": Input("the pairs behind them", f"{_SCHEMAS}.semantics:HUMAN_SCORES"),
    "relation_measures": Input(
        "measures of all papers, side by side", f"{_SCHEMAS}.relations:RELATION_MEASURES"
    ),
    "relation_correlations": Input(
        "rank correlations of these", f"{_SCHEMAS}.relations:RELATION_CORRELATIONS"
    ),
    "relation_orders": Input("orders of models by these", f"{_SCHEMAS}.relations:RELATION_ORDERS"),
}

_PUBLISHED = r"""

Published values stand in columns of their own. They were measured on a million documents of English
Wikipedia by models of up to 315 million parameters: compare the pattern, not the digits."""
_STARS = r"""

Stars: \*\* p < 0.005, \* p < 0.05, one-sided for distances, from random exchanges of documents (or
groups of them) between both texts, and adjusted for all tests of a body of text; raw p-values are
in the CSV. †: no sound verdict is possible; the note of the table has the reason. The first row is
the *floor*: how far human text is from human text of the same size in the same vocabulary. The
*excess* is what a distance has above it, at this number of documents: it is never compared with
that of another number. Texts of a closed vocabulary are compared with human text in those of
its words that training and test split have often enough together: all other words are read as
unknown on both sides."""
_MODELS = ("models", "perplexities")
_PUBLISHED_CONTRASTS = """

Published values stand in columns of their own. They were measured on the Penn Treebank, in a
logarithm that the paper does not name: compare the pattern, not the digits."""

# By ``paper/name``; the files are <results>/tables/{paper}/[{subject}/]{name}.{csv,tex,html}.
TABLES: Rows[Exhibit] = {
    "tendencies/table_1": Exhibit(
        "report.tables:model_table",
        _MODELS,
        "Models",
        "Trained parameters, perplexity of the test split with and without the penalty for unknown "
        "words, and bits per byte with their spelling, in which models of any vocabulary compare. "
        "All count the end of each document, not its beginning.",
        published=_PUBLISHED,
        optional=_MODELS,
    ),
    "tendencies/perplexity_differences": Exhibit(
        "report.perplexity_differences:differences_table",
        ("perplexity_differences",),
        "Differences in bits per byte",
        "Bits per byte of every model and the differences of all pairs that are scored on the same "
        "text, with 95% intervals over documents of these pages (over pages, where whole pages "
        "were split), p-values by sign-flips, and the smallest difference that this test split can "
        "show. A difference is a claim about two trained models; about two architectures only "
        "several trainings of each can say something.",
    ),
    "tendencies/table_2": Exhibit(
        "report.measured:table_2",
        ("measures",),
        "Rank-frequency and unigrams",
        "Kolmogorov-Smirnov distance of the first 10,000 ranks to Zipf's law fitted to the samples "
        "(`ks_zipf_model`), to Zipf's law fitted to the test split (`ks_zipf_reference`) and to "
        "the test split itself (`ks_empirical`); total variation distance `tvd` (half the sum of "
        "absolute differences), the same over the first 1,000 ranks of both texts (`tvd_1000`) and "
        "`max_difference` (the largest single difference, which the paper prints under the name "
        "tvd), with and without unknown words." + _STARS,
        published=_PUBLISHED,
    ),
    "tendencies/table_3": Exhibit(
        "report.measured:table_3",
        ("measures",),
        "Length, stop words, symbols",
        "Kolmogorov-Smirnov distance to the test split." + _STARS,
        published=_PUBLISHED,
    ),
    "tendencies/table_4": Exhibit(
        "report.tables:reference_table",
        ("raw_measures", "resamples"),
        "The test split itself",
        "Fitted laws and means, with standard deviations over random subsets of the training split "
        "of the same size.",
        published=_PUBLISHED,
        optional=("resamples",),
    ),
    "tendencies/table_5": Exhibit(
        "report.measured:table_5",
        ("measures",),
        "Fitted laws of the samples",
        "Zipf's s by the paper's fit, and by one that takes ranks and frequencies from different "
        "halves of a text; Heaps' β. Intervals are of what the parameter would be in other text of "
        "the same kind.",
        published=_PUBLISHED,
    ),
    "tendencies/table_6": Exhibit(
        "report.measured:table_6",
        ("measures",),
        "Differences in means",
        "Samples minus test split. Length in tokens; stop words and symbols as shares of the "
        "tokens. Tests of a signed difference are two-sided." + _STARS,
        published=_PUBLISHED,
    ),
    "tendencies/embeddings": Exhibit(
        "report.embeddings:embeddings_table",
        ("embedding_measures",),
        "Distances of the documents' vectors",
        "Maximum mean discrepancy of the vectors that an encoder of sentences makes of documents, "
        "with a randomization of documents (or groups of them) as the other distances have. It "
        "sees what the encoder sees: what a text is about, more than how well it is written."
        + _STARS,
    ),
    "tendencies/raw_distances": Exhibit(
        "report.measured:raw_distances",
        ("raw_measures",),
        "Distances in raw text",
        "Every distance once more with no word replaced in either text. A model of a closed "
        "vocabulary cannot write the words outside of it, and so differs here even where it is "
        "perfect." + _STARS,
    ),
    "tendencies/samples": Exhibit(
        "report.examples:examples_table",
        ("example_samples", "example_documents"),
        "What the texts look like",
        "The first documents of the test split and of every body of text, in the order of their "
        "numbers and cut after 80 words: none was chosen.",
    ),
    "tendencies/sensitivity": Exhibit(
        "report.sensitivity:sensitivity_table",
        ("sensitivity",),
        "What the tests can see",
        "Two samples of n documents are drawn from the documents of the test split, the second "
        "with a shift: lengths stretched, tokens turned into stop words or symbols, the words of "
        "some documents exchanged by a permutation of all types, rare words made rarer, types "
        "removed. Shown is the smallest shift that the permutation test of each tendency finds at "
        "p < 0.005 with a probability of 0.8.",
    ),
    **IMPORTANCE_TABLES,
    "contrastive/findings": Exhibit(
        "report.contrastive_findings:findings_table",
        (
            *("contrasts", "contrast_differences", "models", "perplexities"),
            *("training", "sentence_models", "pair_contrasts"),
        ),
        "What was found",
        "What the paper says of contrastive entropy, and what was found here.",
        optional=(
            *("contrast_differences", "models", "perplexities"),
            *("training", "sentence_models", "pair_contrasts"),
        ),
    ),
    "contrastive/table_1": Exhibit(
        "report.contrastive_readings:readings_table",
        ("contrast_differences",),
        "What contrastive entropy and its ratio say of pairs",
        "The model of the row against that of the column, by the rule of the paper's Table 1. Only "
        "models of one unit are read against each other. It may be used to choose among models of "
        "one scale; it is no ranking, and says nothing of other noise or of generated text.",
    ),
    "contrastive/table_2": Exhibit(
        "report.contrastive_tables:entropy_table",
        ("contrasts", *_MODELS, "given_lengths"),
        "Perplexity and contrastive entropy",
        "Mean loss of log score, per word and per sentence, when the test text is distorted: "
        "higher tells text from noise better, among models of one scale.",
        published=_PUBLISHED_CONTRASTS,
        optional=(*_MODELS, "given_lengths"),
    ),
    "contrastive/table_3": Exhibit(
        "report.contrastive_tables:ratio_table",
        ("contrasts", "models"),
        "Ratio of contrastive entropy",
        "Contrastive entropy over that at the base level of distortion. It stays when scores are "
        "scaled; alone it does not say which model is better.",
        published=_PUBLISHED_CONTRASTS,
        optional=("models",),
    ),
    "contrastive/cross_entropy": Exhibit(
        "report.contrastive_tables:cross_entropy_table",
        ("contrasts",),
        "Cross-entropy per sentence",
        "Minus the log-likelihood of the test text by the number of its sentences (equation 6), "
        "and by that of its words, of models that have a likelihood.",
    ),
    "contrastive/pairs": Exhibit(
        "report.contrastive_pairs:pairs_table",
        ("pair_contrasts",),
        "Good and bad sides of pairs",
        "How often, and by how much, a model finds the good side of brought pairs likelier than "
        "the bad one, by phenomenon. Sums of log scores favour the shorter side: the difference in "
        "length stands beside.",
    ),
    "contrastive/partition": Exhibit(
        "report.contrastive_partition:partition_table",
        ("partitions", "given_lengths"),
        "The partition function of models of sentences",
        "log Z by length, estimated by importance sampling with a model of the run as proposal: a "
        "stochastic lower bound, and so is the perplexity given the lengths that follows from it.",
        optional=("given_lengths",),
    ),
    **SEMANTIC_TABLES,
}


def tabulate(name: str, given: Mapping[str, Any], labels: Labels) -> Table:
    """Make the table of a name.

    Parameters
    ----------
    name : str
        A key of `TABLES`.
    given : dict of str to object
        What the files of each of its kinds of input hold, such as ``measures`` a table.
    labels : Labels
        How models and decodings are called and in which order they stand.

    Raises
    ------
    InputError
        When there is no such table, or what is given lacks what the table shows.
    """
    table: Table = make_exhibit("table", TABLES, name, given, labels)
    label = f"{table.name}-{labels.subject}" if labels.subject else table.name
    tidy = with_data(without_titles(table.tidy, given, labels), labels)
    table = replace(table, name=label, tidy=tidy)
    return table.with_published() if labels.published else table.without_published()
