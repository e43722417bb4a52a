"""Tables 1 and 4 of the tendencies paper: the models, in bits per byte too, and the test set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from beyond_perplexity.errors import InputError, NothingToShowError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import shown
from beyond_perplexity.report.layout import Column, Table
from beyond_perplexity.report.measured import OWN, PAPER, PUBLISHED_NOTE, Measured
from beyond_perplexity.report.published import COLUMN, PARAMETERS, PERPLEXITIES, TEST_SET
from beyond_perplexity.tendencies.definitions import LENGTH, SHARES

SPELLED = "bits per byte, words spelled"
RAW_BITS = "bits per byte of raw text"
BITS_NOTE = (
    "Bits per byte compare models of any vocabulary on one text. They are of model and speller "
    "together: a word that a closed vocabulary lacks costs its <unk> and its spelling by a "
    "character model, blind to the sentence. Of subwords one segmentation is counted, an upper "
    "bound"
)


class ByteBits(NamedTuple):
    """Bits per byte of a model on a text, infinite when a document is impossible.

    With the limits of the interval (None: not known), and the documents and bytes of the text.
    """

    value: float
    low: float | None
    high: float | None
    size: tuple[int, int]


def bits_per_byte(result: Mapping[str, Any] | None, text: str = "cleaned") -> ByteBits | None:
    """Return the bits per byte of whole texts, ``cleaned`` or ``raw``, with unknown words spelled.

    None where the model was not scored on that text, or the spelling of some words is free.
    """
    if result is not None and result.get("text", "cleaned") != text:
        result = result.get("cleaned") if text == "cleaned" else None
    if result is None or "byte" not in result.get("bits", {}):
        return None
    interval = result.get("interval", {})
    if "spelled" in result:
        value, interval = result["spelled"]["bits"]["byte"], interval.get("spelled", {})
    elif result["unknown"]:
        return None
    else:
        value = result["bits"]["byte"]
    low, high = interval.get("bits", {}).get("byte", (None, None))
    size = (int(result["documents"]), int(result["n"]["byte"]))
    return ByteBits(math.inf if value is None else float(value), low, high, size)


def check_one_text(found: Mapping[str, ByteBits | None]) -> None:
    """Check that the numbers of a column are of as many documents and bytes."""
    known = {name: bits for name, bits in found.items() if bits}
    for name, bits in known.items():
        first = next(iter(known))
        if bits.size != known[first].size:
            raise InputError(
                f"models '{first}' and '{name}' were scored on different texts ("
                f"{known[first].size[1]:,} and {bits.size[1]:,} bytes): their bits per byte share "
                "no column; score them on one text"
            )


MILLION = 1e6
BITS_HEADINGS = {"cleaned": SPELLED, "raw": RAW_BITS}

TEST_SET_ROWS = (
    Measured("rank_frequency", "zipf_s", "Zipf s", 4),
    Measured("type_token_unigrams", "heaps_beta", "Heaps β, unigrams"),
    Measured("type_token_unigrams", "heaps_alpha", "Heaps α, unigrams"),
    Measured("type_token_bigrams", "heaps_beta", "Heaps β, bigrams"),
    Measured("type_token_bigrams", "heaps_alpha", "Heaps α, bigrams"),
    Measured(LENGTH, "mean", "Mean length (tokens)", 2),
    *(Measured(name, "mean", f"Mean share of {row.noun}") for name, row in SHARES.items()),
)


def reference_table(
    measures: pd.DataFrame, resamples: pd.DataFrame | None, labels: Labels
) -> Table:
    """Make Table 4: the test set's parameters with their standard deviations over resamples.

    Of measures of samples in raw text those ending in ``_reference`` are the test set's. Those of
    words are of as many tokens as the samples have, so that the longest samples are taken. Without
    at least two resamples of the training set there are no deviations.
    """
    records, body = [], []
    measures = _largest_first(measures)
    for row in TEST_SET_ROWS:
        values = _select(measures, row.tendency, f"{row.measure}_reference")
        if values.empty:
            continue
        value = float(values.iloc[0])
        deviation, n = _deviation(resamples, row)
        paper = TEST_SET.get((row.tendency, row.measure))
        cells = [shown(value, row.digits), shown(deviation, 4), shown(paper, row.digits)]
        body.append([row.heading, *cells])
        records.append(
            {
                "tendency": row.tendency,
                "measure": row.measure,
                "value": value,
                "standard_deviation": deviation,
                "n_resamples": n,
                COLUMN: paper,
            }
        )
    if not records:
        raise NothingToShowError("table 4: the measures have no parameter of the reference")
    heads = [
        Column("Parameter", text=True),
        Column(OWN),
        Column("standard deviation"),
        Column(PAPER, published=True),
    ]
    note = (
        "Standard deviation: over random subsets of the training text, each as large as the test "
        "set; drawn by documents, or by pages where the corpus is split by pages."
    )
    title = f"Table 4: Parameters of the {labels.human()}"
    return Table("table_4", title, note, heads, body, pd.DataFrame(records), PUBLISHED_NOTE)


def _largest_first(measures: pd.DataFrame) -> pd.DataFrame:
    """Put the bodies with the most tokens first: the laws of words are fitted to as many tokens."""
    tokens = measures[(measures["tendency"] == "vocabulary") & (measures["measure"] == "tokens")]
    sizes = dict(zip(tokens["source"], tokens["value"], strict=True))
    order = measures["source"].map(lambda name: -sizes.get(name, 0.0))
    return measures.loc[order.sort_values(kind="stable").index]


def _select(table: pd.DataFrame, tendency: str, measure: str) -> pd.Series:
    chosen = (table["tendency"] == tendency) & (table["measure"] == measure)
    return table.loc[chosen, "value"].dropna()


def _deviation(resamples: pd.DataFrame | None, row: Measured) -> tuple[float | None, int]:
    if resamples is None:
        return None, 0
    values = _select(resamples, row.tendency, row.measure)
    return (float(values.std(ddof=1)) if len(values) > 1 else None), len(values)


def model_table(
    models: Mapping[str, Mapping[str, Any]],
    perplexities: Mapping[str, Mapping[str, Any]],
    labels: Labels,
) -> Table:
    """Make Table 1: parameters and perplexity of every model.

    Takes ``model.json`` and perplexity results by name; a perplexity of null is infinite.
    """
    records, body = [], []
    texts = [text for text in ("cleaned", "raw") if _scored(perplexities, text)]
    for name in labels.sort_models(models):
        record = _model_record(name, models[name], perplexities.get(name))
        records.append(record)
        paper_size = PARAMETERS.get(str(record["family"]))
        body.append(
            [
                labels.model(name),
                str(record["vocabulary"]),
                shown(float(str(record["parameters"])) / MILLION, 2),
                shown(paper_size / MILLION if paper_size else None),
                *(shown(record[f"perplexity_per_{unit}"], 2) for unit in ("token", "word")),
                shown(record["perplexity_per_word_unknown_penalized"], 2),
                shown(record[f"{COLUMN}_perplexity"], 2),
                *(shown(record[f"bits_per_byte_{text}"]) for text in texts),
            ]
        )
    heads = [
        Column("Model", text=True),
        Column("Vocabulary", text=True),
        Column(OWN, "Parameters (millions)"),
        Column(PAPER, "Parameters (millions)", published=True),
        Column("per token", "Perplexity of the test set"),
        Column("per word", "Perplexity of the test set"),
        Column("per word, unknown penalized", "Perplexity of the test set"),
        Column(PAPER, "Perplexity of the test set", published=True),
        *(Column(BITS_HEADINGS[text], "Bits of the test set") for text in texts),
    ]
    note = (
        f"All numbers count the end of a document. {BITS_NOTE}. The penalty for unknown words is "
        "the published one, ln U nats for one of U training types, which is less than a spelling. "
        "Caps of length, such as the pieces that a model was trained on, are in the CSV (data)."
    )
    title = "Table 1: Parameters and perplexity of the models"
    return Table("table_1", title, note, heads, body, pd.DataFrame(records), PUBLISHED_NOTE)


def _scored(perplexities: Mapping[str, Mapping[str, Any]], text: str) -> dict[str, ByteBits | None]:
    """Return the bits per byte of a text of the models that have them; checks that it is one."""
    found = {name: bits_per_byte(result, text) for name, result in perplexities.items()}
    check_one_text(found)
    return {name: bits for name, bits in found.items() if bits}


def _model_record(
    name: str,
    model: Mapping[str, Any],
    perplexity: Mapping[str, Any] | None,
) -> dict[str, object]:
    try:
        family, size = str(model["family"]), int(model["parameters"])
        kind = str(model["vocabulary"]["kind"])
        units = {unit: _perplexity(perplexity, unit) for unit in ("token", "word")}
        # An open vocabulary has no unknown words to be charged for.
        charged = (perplexity or {}).get("unknown_penalized", perplexity)
        penalized = _perplexity(charged, "word")
        bits = {text: bits_per_byte(perplexity, text) for text in BITS_HEADINGS}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"the description or perplexity of model '{name}' lacks {error}"
        ) from error
    return {
        "model": name,
        "family": family,
        "vocabulary": kind,
        "parameters": size,
        f"{COLUMN}_parameters": PARAMETERS.get(family),
        **{f"perplexity_per_{unit}": value for unit, value in units.items()},
        "perplexity_per_word_unknown_penalized": penalized,
        **{f"bits_per_byte_{text}": found and found.value for text, found in bits.items()},
        **{f"bits_per_byte_{text}_low": found and found.low for text, found in bits.items()},
        **{f"bits_per_byte_{text}_high": found and found.high for text, found in bits.items()},
        f"{COLUMN}_perplexity": PERPLEXITIES.get(family),
    }


def _perplexity(result: Mapping[str, Any] | None, unit: str) -> float | None:
    if result is None:
        return None
    value = result["perplexity"][unit]
    return float("inf") if value is None else float(value)
