"""One function per figure: tidy tables in, a matplotlib figure out.

`FIGURES` has a row for every figure of every paper; `draw_figure` draws one by its name. A new
figure is a function in a file of its own and a row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from beyond_perplexity.figures.exhibit import Exhibit, make_exhibit, with_drawable_texts
from beyond_perplexity.tendencies.definitions import SHARES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from beyond_perplexity.figures.labels import Labels
    from beyond_perplexity.options import Rows

TERMS_OF_ESTIMATES = """

An *instance* is a sentence or a document, whichever the model reads as one. *K* is the number of
samples of an instance: bounds of different K do not compare, as they fall when K rises. *T* is the
number of tokens that a log-likelihood is divided by: those of all instances (the notes of the
tables say what counts as one). At the
*instance level* the samples of each instance are averaged and the instances are multiplied; at the
*corpus level* sample k of every instance is multiplied and the products are averaged."""

# By ``paper/name``; the files are <results>/figures/{paper}/[{subject}/]{name}.{svg,pdf}.
FIGURES: Rows[Exhibit] = {
    "tendencies/main": Exhibit(
        "figures.effect_sizes:effect_sizes",
        ("measures",),
        "Distance to the test set in every tendency",
        "Distance of every body of text to the test split in every tendency: 0 is the same "
        "distribution. The first rows are the *floor*, how far human text is from human text of "
        "the same size, in each vocabulary that it is read in (a range where sizes differ). White "
        "cells lie in the middle 95% of that; blue is farther, the darker the larger the excess "
        "over the floor; orange is closer than human text is to itself, as copied text can be, and "
        "text of few different words, which is less noisy: its stars tell it apart all the same. "
        r"Stars: \*\* p < 0.005, \* p < 0.05, one-sided, adjusted for all tests of a body of text; "
        "†: no sound verdict is possible, the notes of the tables say why.",
    ),
    "tendencies/figure_1": Exhibit(
        "figures.type_token:type_token_overview",
        ("curves",),
        "Types against document length",
        "Number of distinct unigrams against document length.",
    ),
    "tendencies/figure_2": Exhibit(
        "figures.vocabulary:vocabulary",
        ("measures",),
        "Vocabulary of every body of text",
        "Types and tokens of every body of text, and how far its vocabulary covers the test split, "
        "both read in the vocabulary that they are compared in.",
    ),
    "tendencies/figure_3": Exhibit(
        "figures.type_token:type_token",
        ("curves",),
        "Types against document length, by decoding",
        "Number of distinct unigrams against document length, one panel per decoding.",
    ),
    "tendencies/figure_4": Exhibit(
        "figures.type_token:type_token_ks",
        ("curves",),
        "Distance of the number of types, by length",
        "Kolmogorov-Smirnov distance of the number of types at each document length: to the law "
        "fitted to the samples, to the law fitted to the test split, and to the test split.",
    ),
    "tendencies/figure_5": Exhibit(
        "figures.length:length",
        ("curves",),
        "Document lengths",
        "Document lengths in tokens: median, quartiles, 5th and 95th percentile.",
    ),
    "tendencies/figure_6": Exhibit(
        "figures.rank_frequency:rank_frequency",
        ("curves",),
        "Rank and frequency",
        "Relative frequency against rank, with Zipf's law fitted to the test split in each "
        "vocabulary that it is read in (by the paper's fit).",
    ),
    "tendencies/figure_7": Exhibit(
        "figures.type_token:bigram_type_token",
        ("curves",),
        "Bigram types against document length",
        "Number of distinct bigrams against document length, one panel per decoding. The text of "
        "the paper at hand has no captions and does not mention its Figure 7; this one shows the "
        "relation that its Table 4 fits for bigrams.",
    ),
    **{
        f"tendencies/{row.figure}": Exhibit(
            f"figures.densities:{name}",
            ("curves",),
            f"Share of {row.noun}",
            f"Share of {row.noun}{row.note and f', that is {row.note},'} in a document.",
        )
        for name, row in SHARES.items()
    },
    "tendencies/sample_size": Exhibit(
        "figures.sample_size:sample_size",
        ("sample_size",),
        "Measures against the number of documents",
        "Every measure against the number of documents: mean over random subsets, band from the "
        "5th to the 95th percentile. The last point has all documents. Distances fall with the "
        "number of documents even for equal distributions: the grey band is how far human text is "
        "from itself at that number.",
    ),
    "tendencies/sample_size_p_values": Exhibit(
        "figures.sample_size:p_values",
        ("sample_size",),
        "P-values against the number of documents",
        "P-values of the permutation tests against the whole test split, against the number of "
        "documents: median over random subsets, band from the 5th to the 95th percentile. They are "
        "of one test each, not adjusted for many. The smallest p that B permutations can give is "
        "1 / (B + 1): a line at the bottom says no more. Dotted: 0.05 and 0.005.",
    ),
    "tendencies/sensitivity": Exhibit(
        "figures.sample_size:sensitivity",
        ("sensitivity",),
        "Smallest shift that documents detect",
        "The smallest shift that two samples of n documents detect at p < 0.005 with a "
        "probability of 0.8, relative to the value of the test split (unigrams: share of the "
        "documents whose words are exchanged).",
    ),
    "tendencies/perplexity_differences": Exhibit(
        "figures.perplexity_differences:perplexity_differences",
        ("perplexity_differences",),
        "Differences in bits per byte",
        "Left: bits per byte of every model with 95% intervals. Right: model of the row less model "
        "of the column, ± half its 95% interval; white where no difference was found (adjusted "
        "p of at least 0.05), blue where the row's model is better. The intervals on the left "
        "overlap even where a difference is certain: documents are hard or easy for all models "
        "alike.",
    ),
    "tendencies/training": Exhibit(
        "figures.training:training",
        ("training",),
        "Training curves",
        "Loss in nats per token of the training and validation split.",
    ),
    "importance/figure_1": Exhibit(
        "figures.latents:latent_states",
        ("latents",),
        "Latent variables",
        "The latent variables of an annotated sentence or document of each model; of several "
        "documents, of that in which its proposal finds most mentions of the annotation.",
    ),
    "importance/figure_2": Exhibit(
        "figures.importance:perplexity_by_samples",
        ("importance_curves",),
        "Perplexity against the number of samples",
        f"Perplexity at instance level against K, the mean over random subsets of the samples."
        f"{TERMS_OF_ESTIMATES}",
    ),
    "importance/figure_3": Exhibit(
        "figures.importance:aggregation",
        ("importance_curves",),
        "Perplexity at both levels",
        "Perplexity against K, of the model with the most proposals; the band holds 95 % of the "
        "subsets (by default: `importance.reduction.confidence`). With all K samples every subset "
        "is the same, so the band of the instance level ends in a point; the corpus level keeps "
        f"one, as the pairing of the samples stays random.{TERMS_OF_ESTIMATES}",
    ),
    "importance/figure_4": Exhibit(
        "figures.importance:densities",
        ("replicates",),
        "Density of estimates",
        "The density of estimates at instance level from disjoint blocks of the samples."
        f"{TERMS_OF_ESTIMATES}",
    ),
    "importance/figure_bounds": Exhibit(
        "figures.bounds:bounds",
        ("estimates", "gaps"),
        "Bounds of every method",
        "The upper bounds of every method, and the brackets that enclose the value from both "
        "sides with their errors: dotted where no claim is made, or simulated documents refute it. "
        "Bars of upper bounds are two "
        "errors over the samples on both sides. Of several temperatures (and beams whose tail is "
        "sampled) the lowest is shown. It is chosen by the numbers that it is shown among, and "
        "so it is no bound in expectation any more; a temperature fixed in advance, or chosen "
        "on other data, keeps it one."
        f"{TERMS_OF_ESTIMATES}",
    ),
    "importance/figure_gaps": Exhibit(
        "figures.bounds:true_gaps",
        ("gaps",),
        "Gaps on simulated documents",
        "What each setting lacks of log p, nats per token, on documents that the model generated: "
        "a bar from the least to the most that it can be (bidirectional Monte Carlo, against the "
        "best estimates of the model from below and from above).",
    ),
    "importance/figure_costs": Exhibit(
        "figures.importance:gap_by_cost",
        ("estimates", "importance_curves", "costs"),
        "Gap to the best bound against cost",
        "How far every stochastic bound lies above the best bound of its model, in nats a token, "
        "against seconds of one core (or GPU) for an instance and against evaluations of p and q. "
        "Lines: ever more samples at a temperature, their seconds taken in proportion; marks: what "
        "was drawn as a whole, its seconds measured. At the best bound itself the gap is 0 and not "
        "shown on a logarithmic axis, but at its lower edge."
        f"{TERMS_OF_ESTIMATES}",
    ),
    "contrastive/figure_1": Exhibit(
        "figures.contrastive:entropy_by_distortion",
        ("contrasts",),
        "Contrastive entropy against distortion",
        "Contrastive entropy of the test text against the share of its words that were distorted "
        "(half of them replaced, half exchanged with another of the sentence, by default): mean "
        "over draws; the band is the 95% interval over documents or groups of them. Models without "
        "a likelihood have a panel of their own, as their scale is arbitrary: there heights do not "
        "compare, shapes do.",
    ),
    "contrastive/figure_2": Exhibit(
        "figures.contrastive:entropy_by_epoch",
        ("training",),
        "Contrastive entropy over training",
        "Contrastive entropy of a fixed part of the training text, and of the validation text, "
        "after each epoch, of models that are trained against distorted sentences; the distortion "
        "is that of the model's own training, so that heights of models with another one do not "
        "compare. Higher is better; the text of the paper says that that of the training text "
        "falls, its Figure 2 that it rises.",
    ),
    "contrastive/figure_3": Exhibit(
        "figures.contrastive:entropy_by_margin",
        ("contrasts", "sentence_models"),
        "Contrastive entropy by the distortion of the training",
        "Contrastive entropy of the test text against its distortion, of models that were trained "
        "against sentences of different distortion. Each training finds a scale of its own, so "
        "that heights compare with care: see the ratios.",
    ),
    "semantics/figure_1": Exhibit(
        "figures.semantics:correlations_over_models",
        ("semantic_correlations",),
        "Correlation of measures over models",
        "Correlations of the measures over the models, as the paper's Figures 1 and 2 have it (one "
        "for each corpus), of each split: Pearson's below the diagonal, Spearman's above, with 95% "
        "intervals; in the order of a tree. Of cross-entropy less is better.",
    ),
    "semantics/figure_2": Exhibit(
        "figures.semantics:correlations_over_sentences",
        ("semantic_correlations",),
        "Correlation of measures over sentences",
        "The same over sentences: the mean over models of the correlation of the scores of a "
        "model's sentences, with 95% intervals over documents or groups of them.",
    ),
    "semantics/figure_3": Exhibit(
        "figures.semantics:scaling_curve",
        ("semantics",),
        "Scaled similarity",
        "What equations 12 and 13 make of a similarity, with the paper's constants, and where the "
        "mean cosine of each model lies on the latter. The paper's text has a cosine of .82 become "
        ".8; its equation makes .55 of it.",
    ),
    "relations/figure_1": Exhibit(
        "figures.relations:relation_matrix",
        ("relation_measures", "relation_correlations"),
        "Rank correlations of the measures of all papers",
        "Spearman's correlation of all measures, signed so that more is better in each: below the "
        "diagonal over all rows (a model, or its text under a decoding), above it over models "
        "within decodings, the mean over these. On the left the tree by average linkage of 1 less "
        "the size of the latter. A 95% interval counts models and not rows, as the rows of a model "
        "are not independent; decodings are taken as given.",
    ),
}


def draw_figure(name: str, given: Mapping[str, Any], labels: Labels) -> Figure:
    """Draw the figure of a name, a key of `FIGURES`, of what files of each kind hold."""
    shown = with_drawable_texts(given)
    figure: Figure = make_exhibit("figure", FIGURES, name, shown, labels)
    return figure
