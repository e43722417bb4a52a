"""The values that Meister and Cotterell (2021) print in their Tables 1 to 6, copied by hand.

Each block names the table it comes from. A dash stands for a value that cannot be read without
doubt in our copy of the paper. Columns are the paper's decodings, in its order: random (here:
ancestral), nucleus, beam. Stars are the paper's: ** p < 0.005 and * p < 0.05 of its tests.

References
----------
Meister, Cotterell (2021). Language Model Evaluation Beyond Perplexity. ACL-IJCNLP.
"""

from __future__ import annotations

from typing import NamedTuple

CITATION = "Meister & Cotterell 2021"
COLUMN = "published"

PUBLISHED_FAMILIES = ("transformer", "transformer-adaptive-softmax", "cnn", "lstm", "trigram")
PUBLISHED_KINDS = ("ancestral", "nucleus", "beam")


class PublishedValue(NamedTuple):
    """A printed number and the stars printed beside it."""

    value: float
    stars: str = ""


# Table 1: parameters in millions, test set perplexity (none is given for the trigram).
PARAMETERS = dict(zip(PUBLISHED_FAMILIES, (205e6, 315e6, 133e6, 59e6), strict=False))
PERPLEXITIES = dict(zip(PUBLISHED_FAMILIES, (23.52, 32.66, 48.96, 49.29), strict=False))

# Table 4: the test set's own values. The paper's standard deviations are lost in our copy.
TEST_SET = {
    ("rank_frequency", "zipf_s"): 1.1997,
    ("type_token_unigrams", "heaps_beta"): 0.841,
    ("type_token_unigrams", "heaps_alpha"): 1.390,
    ("type_token_bigrams", "heaps_beta"): 0.966,
    ("type_token_bigrams", "heaps_alpha"): 1.099,
    ("length", "mean"): 57.45,
    ("stop_words", "mean"): 0.284,
    ("symbols", "mean"): 0.149,
}

# One row per family in the order of PUBLISHED_FAMILIES.
_TABLES: dict[tuple[str, str], str] = {
    # Table 2, rank-frequency, D_p_theta: against Zipf's law with the s of the sample
    ("rank_frequency", "ks_zipf_model"): """
        0.150 0.145 0.170
        0.145 0.142 0.150
        0.145 0.142 0.167
        0.147 0.143 0.175
        0.151 0.148 0.119""",
    # Table 2, rank-frequency, D_p_hat: against Zipf's law with the s of the test set
    ("rank_frequency", "ks_zipf_reference"): """
        0.150 0.142 0.170
        0.143 0.142 0.142
        0.144 0.142 0.167
        0.144 0.142 0.178
        0.154 0.146 0.152""",
    # Table 2, rank-frequency, D_p: against the test set. The trigram's row has two of three values
    # left, 0.020 and 0.251; which column is empty cannot be told.
    ("rank_frequency", "ks_empirical"): """
        3.7e-3 0.029 0.024
        0.013 0.041 0.046
        0.013 0.039 0.022
        0.016 0.043 0.034
        - - -""",
    # Table 2, unigram: printed as tvd, but by its eq. 11 the largest single difference
    ("unigram", "max_difference"): """
        6.9e-3 6.9e-3 6.9e-3
        0.014 0.014 0.038
        6.9e-3 6.9e-3 8.6e-3
        3.4e-3 0.010 9.2e-3
        2.9e-3 3.0e-3 0.075""",
    # Table 3, KS distances
    ("length", "ks"): """
        0.031 0.034 0.481
        0.037 0.041 0.477
        0.034 0.051 0.491
        0.014 0.036 0.516
        0.093 0.084 0.214""",
    ("stop_words", "ks"): """
        0.023 0.062 0.323
        0.047 0.015 0.378
        0.036 0.102 0.324
        0.008 0.069 0.382
        0.126 0.145 0.490""",
    ("symbols", "ks"): """
        0.081 0.065 0.205
        0.083 0.072 0.252
        0.069 0.054 0.213
        0.037 0.048 0.271
        0.044 0.037 0.061""",
    # Table 5, parameters fitted to the samples
    ("rank_frequency", "zipf_s"): """
        1.199 1.204 1.199
        1.201 1.204 1.206
        1.201 1.205 1.200
        1.202 1.206 1.198
        1.198 1.201 1.260""",
    ("type_token_unigrams", "heaps_beta"): """
        0.861 0.841 0.889
        0.866 0.847 0.895
        0.890 0.878 0.910
        0.887 0.873 0.911
        0.902 0.898 0.854""",
    # Table 6, mean of the samples minus mean of the test set
    ("length", "mean_difference"): """
        1.655** -1.927** -44.11**
        3.334** 0.134 -44.14**
        0.239* -3.495** -44.78**
        -1.53** -4.661** -46.28**
        -1.750** -4.715** -21.73**""",
    ("stop_words", "mean_difference"): """
        0.0071** 0.0175** -0.1053**
        -0.0060** 0.0045** -0.1276**
        0.0117** -0.0074** -0.1045**
        0.0002* 0.0114** -0.1274**
        -0.0415** 0.0496** 0.1363**""",
    ("symbols", "mean_difference"): """
        -0.0076** -0.0047** 0.0131**
        -0.0102** -0.0082** 0.0007*
        0.0242** -0.0046** 0.0113**
        0.0051** 0.0070** 0.0010**
        -0.0007* 0.0004* -0.0162**""",
}


def _parse(text: str) -> PublishedValue | None:
    if text == "-":
        return None
    number = text.rstrip("*")
    return PublishedValue(float(number), text[len(number) :])


def published(tendency: str, measure: str, family: str, kind: str) -> PublishedValue | None:
    """Look a printed value up, by family and kind of decoding; None when the paper has none."""
    block = _TABLES.get((tendency, measure))
    if block is None or family not in PUBLISHED_FAMILIES or kind not in PUBLISHED_KINDS:
        return None
    rows = [line.split() for line in block.strip().splitlines()]
    return _parse(rows[PUBLISHED_FAMILIES.index(family)][PUBLISHED_KINDS.index(kind)])


def is_published(tendency: str, measure: str) -> bool:
    """Return whether the paper has values of a measure."""
    return (tendency, measure) in _TABLES
