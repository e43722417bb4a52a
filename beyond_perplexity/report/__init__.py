"""Tables and pages for a reader.

`TABLES` has a row for every table of every paper; `tabulate` makes a table by its name. A new table
is a function in a file of its own and a row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from beyond_perplexity.figures import TERMS_OF_ESTIMATES
from beyond_perplexity.figures.exhibit import Exhibit, make_exhibit, with_data, without_titles

if TYPE_CHECKING:
    from beyond_perplexity.figures.labels import Labels
    from beyond_perplexity.options import Rows
    from beyond_perplexity.report.layout import Table


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
_PUBLISHED_MEANING = """

Their values stand below those of this run. They were measured by evaluators of the paper's own:
compare the pattern, not the digits."""

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
    "importance/table_choice": Exhibit(
        "report.importance_choice:choice_table",
        ("estimates", "choices"),
        "Which number to report",
        "First the estimates that need no choice on the data that they are reported on, then the "
        "one that speaks for its model, then the least strict bound." + TERMS_OF_ESTIMATES,
        optional=("choices",),
    ),
    "importance/table_1": Exhibit(
        "report.importance:sampling_table",
        ("estimates", "beside"),
        "Importance sampling",
        "Perplexity of models with latent variables, estimated from samples of a proposal. The ± "
        "of the corpus level is the standard deviation over random pairings of the same samples. "
        "The last rows are of models without latent variables, on the same instances and T."
        + TERMS_OF_ESTIMATES,
        optional=("beside",),
    ),
    "importance/table_beside": Exhibit(
        "report.importance_beside:beside_table",
        ("estimates", "importance_instances", "beside", "choices"),
        "What the latent variables bring",
        "Every model with latent variables against models without, on the same instances, with "
        "the same vocabulary and the same T; paired differences with 95% intervals over pages or "
        "documents." + TERMS_OF_ESTIMATES,
        optional=("choices",),
    ),
    "importance/table_costs": Exhibit(
        "report.importance_choice:costs_table",
        ("estimates", "costs"),
        "Equal cost",
        "How far every bound is from the best of its model, what it cost, and how many samples a "
        "standard error of 0.01 nats a token needs. Seconds are measured and differ from run to "
        "run." + TERMS_OF_ESTIMATES,
    ),
    "importance/table_advice": Exhibit(
        "report.importance_choice:advice_table",
        ("estimates", "costs", "choices"),
        "Which estimator to use",
        "A line a model: estimator, proposal, temperature and K, and what a standard error of 0.01 "
        "nats a token takes." + TERMS_OF_ESTIMATES,
        optional=("choices",),
    ),
    "importance/table_latents": Exhibit(
        "report.importance_latents:latents_table",
        ("posteriors",),
        "Latents of the posterior and of the proposals",
        "Precision, recall and F1 of mentions, the share of right entities among the mentions that "
        "are found, and unlabelled F1 of trees, against the annotation: of the latents that a "
        "model believes in given the words, and of those that a proposal draws.",
    ),
    "importance/table_words": Exhibit(
        "report.importance_latents:words_table",
        ("posteriors", "beside"),
        "Words of mentions and other words",
        "Perplexity of the words inside annotated mentions, of the other words, and of the end, "
        "with latent variables and without.",
        optional=("beside",),
    ),
    "importance/table_2": Exhibit(
        "report.importance:beam_table",
        ("estimates",),
        "Beam marginalization",
        "Perplexity of models with latent variables, bounded by the latents of a beam search."
        + TERMS_OF_ESTIMATES,
    ),
    "importance/table_diagnostics": Exhibit(
        "report.importance:trust_table",
        ("estimates", "gaps"),
        "How far the estimates can be trusted",
        "What each number is of the true perplexity (a strict or a stochastic upper bound, or "
        "debiased) stands beside it. Errors over the samples are by the delta method where every "
        "instance has 10 effective samples (or runs) or more and a relative variance of at most "
        "0.1, else by bootstrap, which may be too small; neither knows of the bias."
        + TERMS_OF_ESTIMATES,
        optional=("gaps",),
    ),
    "importance/table_gaps": Exhibit(
        "report.importance_gaps:gaps_report",
        ("gaps",),
        "Gaps on simulated documents",
        "Every setting on documents that the model generated, whose latents are a draw from the "
        "posterior: log p from both sides (bidirectional Monte Carlo), what each setting misses of "
        "it, and whether its bracket holds.",
    ),
    "contrastive/findings": Exhibit(
        "report.contrastive_findings:contrastive_findings_table",
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
        "report.contrastive_pairs:partition_table",
        ("partitions", "given_lengths"),
        "The partition function of models of sentences",
        "log Z by length, estimated by importance sampling with a model of the run as proposal: a "
        "stochastic lower bound, and so is the perplexity given the lengths that follows from it.",
        optional=("given_lengths",),
    ),
    "semantics/findings": Exhibit(
        "report.semantic_findings:semantic_findings_table",
        (
            *("semantics", "semantic_differences", "semantic_correlations"),
            *("models", "probes", "human_correlations", "human_scores"),
        ),
        "What was found",
        "What the paper says of the meaning of predictions, and what was found here.",
        optional=(
            *("semantic_differences", "semantic_correlations"),
            *("models", "probes", "human_correlations", "human_scores"),
        ),
    ),
    "semantics/table_1": Exhibit(
        "report.semantic_tables:paper_table",
        ("semantics", "models"),
        "Tables I and II: predictions against targets",
        "Similarity of what models predict, word by word, to what is there, as the paper's Tables "
        "I and II have it.",
        optional=("models",),
        published=_PUBLISHED_MEANING,
    ),
    "semantics/measures": Exhibit(
        "report.semantic_tables:measures_table",
        ("semantics",),
        "Measures of meaning, in a line each",
        "What each measure is, its range and direction, its floor in this run, and what it does "
        "not say.",
    ),
    "semantics/values": Exhibit(
        "report.semantic_tables:values_table",
        ("semantics",),
        "All values, with their floors",
        "What each model has in each measure: of the likeliest words, of unrelated sentences (the "
        "floor), above it, and of words drawn from the model.",
    ),
    "semantics/differences": Exhibit(
        "report.semantic_evaluators:semantic_differences_table",
        ("semantic_differences",),
        "Differences of models in measures of meaning",
        "Differences of all pairs of models on the same sentences, with their intervals; "
        r"stars: \*\* p < 0.005, \* p < 0.05, adjusted for all pairs and measures of a kind.",
    ),
    "semantics/probes": Exhibit(
        "report.semantic_evaluators:probes_table",
        ("probes",),
        "What the measures notice",
        "What each measure gives a true sentence against itself, an unrelated one, and itself "
        "changed: negated, words exchanged, all words shuffled.",
    ),
    "semantics/human": Exhibit(
        "report.semantic_evaluators:human_table",
        ("human_correlations", "human_scores"),
        "Measures against scores that people gave",
        "Correlation of each measure with scores that people gave to pairs of texts.",
    ),
    "relations/findings": Exhibit(
        "report.relations:relation_findings_table",
        ("relation_measures", "relation_correlations", "relation_orders"),
        "What was found across papers",
        "How the measures of all papers go together, and what perplexity misses.",
    ),
    "relations/measures": Exhibit(
        "report.relations:relations_table",
        ("relation_measures",),
        "The measures of all papers",
        "A row for each model, and for its text under each decoding; a column for each measure: "
        "bits per byte, contrastive entropy, the meaning of predictions, and the distance of "
        "generated text to human text above its floor.",
    ),
    "relations/orders": Exhibit(
        "report.relations:orders_table",
        ("relation_measures", "relation_orders"),
        "What perplexity misses",
        "Pairs of models that another measure puts in another order than bits per byte, with the "
        "probability that both orders are real.",
    ),
}


def tabulate(name: str, given: Mapping[str, Any], labels: Labels) -> Table:
    """Make the table of a name, a key of `TABLES`, of what the files of each kind of input hold."""
    table: Table = make_exhibit("table", TABLES, name, given, labels)
    label = f"{table.name}-{labels.subject}" if labels.subject else table.name
    tidy = with_data(without_titles(table.tidy, given, labels), labels)
    table = replace(table, name=label, tidy=tidy)
    return table.with_published() if labels.published else table.without_published()
