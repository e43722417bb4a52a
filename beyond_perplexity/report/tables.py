"""Tables 1 to 6 of the tendencies paper from measures and model descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels, parse_source
from beyond_perplexity.figures.numbers import STAR_NOTE, shown, stars
from beyond_perplexity.report.layout import Column, Table
from beyond_perplexity.report.perplexities import (
    BITS_NOTE,
    RAW_BITS,
    SPELLED,
    ByteBits,
    bits_per_byte,
    check_one_text,
)
from beyond_perplexity.report.published import (
    CITATION,
    COLUMN,
    PARAMETERS,
    PERPLEXITIES,
    TEST_SET,
    published,
)
from beyond_perplexity.tendencies.rows import LENGTH, SHARE_NOUNS, SHARES, tendencies_of

OWN, PAPER = "this run", "published"
MILLION = 1e6
BITS_HEADINGS = {"cleaned": SPELLED, "raw": RAW_BITS}
DOCUMENT_ROWS = tendencies_of("length", "share")
PUBLISHED_NOTE = f"Columns '{PAPER}': {CITATION}, on 1M documents of English Wikipedia."


class Measured(NamedTuple):
    """A measured quantity that a table shows, and its heading."""

    tendency: str
    measure: str
    heading: str
    digits: int = 3


class Specification(NamedTuple):
    """What Tables 2, 3, 5 and 6 show: a row per model and decoding, two columns per quantity."""

    title: str
    note: str
    columns: tuple[Measured, ...]


MEASURED_TABLES = {
    2: Specification(
        "Distances of rank-frequency and of unigrams",
        "KS: Kolmogorov-Smirnov distance over the first ranks. TVD: total variation, "
        "half of the sum of all differences. Largest difference: of the probability of a single "
        f"word, which the paper prints under the name tvd. {STAR_NOTE}.",
        (
            Measured("rank_frequency", "ks_zipf_model", "KS to the samples' Zipf fit"),
            Measured("rank_frequency", "ks_zipf_reference", "KS to the test set's Zipf fit"),
            Measured("rank_frequency", "ks_empirical", "KS to the test set"),
            Measured("unigram", "tvd", "Unigram TVD"),
            Measured("unigram", "max_difference", "Unigram largest difference", 4),
        ),
    ),
    3: Specification(
        f"Distances of length, {SHARE_NOUNS}",
        f"KS: Kolmogorov-Smirnov distance to the test set, over documents; {SHARE_NOUNS} "
        f"as a share of a document's tokens. {STAR_NOTE}.",
        (
            *(
                Measured(name, row.distance, f"{row.title} KS")
                for name, row in DOCUMENT_ROWS.items()
            ),
        ),
    ),
    5: Specification(
        "Parameters fitted to the samples",
        "Zipf: frequency falls with rank to the power of s. Heaps: types grow with length to the "
        "power of β (unigrams).",
        (
            Measured("rank_frequency", "zipf_s", "Zipf s"),
            Measured("type_token_unigrams", "heaps_beta", "Heaps β"),
        ),
    ),
    6: Specification(
        "Mean of the samples minus mean of the test set",
        f"Length in tokens; {SHARE_NOUNS} as a share of a document's tokens. {STAR_NOTE} "
        "(permutation test over documents).",
        (
            *(
                Measured(name, "mean_difference", row.title, 4 if name in SHARES else 3)
                for name, row in DOCUMENT_ROWS.items()
            ),
        ),
    ),
}

TEST_SET_ROWS = (
    Measured("rank_frequency", "zipf_s", "Zipf s", 4),
    Measured("type_token_unigrams", "heaps_beta", "Heaps β, unigrams"),
    Measured("type_token_unigrams", "heaps_alpha", "Heaps α, unigrams"),
    Measured("type_token_bigrams", "heaps_beta", "Heaps β, bigrams"),
    Measured("type_token_bigrams", "heaps_alpha", "Heaps α, bigrams"),
    Measured(LENGTH, "mean", "Mean length (tokens)", 2),
    *(Measured(name, "mean", f"Mean share of {row.noun}") for name, row in SHARES.items()),
)

ROW_KEYS = ["source", "tendency", "measure"]


def _tidy_row(row: Mapping[Any, Any], labels: Labels) -> dict[str, object]:
    """Lay a measured row beside the published value of the same family and decoding."""
    model, decoding = parse_source(str(row["source"]))
    family = labels.families.get(model, model)
    kind = labels.kinds.get(decoding, decoding)
    paper = published(str(row["tendency"]), str(row["measure"]), family, kind)
    return {
        "source": row["source"],
        "model": labels.model(model),
        "decoding": labels.decoding(decoding),
        **{name: row[name] for name in ("tendency", "measure", "value", "low", "high", "p_value")},
        "stars": stars(row["p_value"]),
        COLUMN: paper.value if paper else None,
        "published stars": paper.stars if paper else "",
        "n_reference": row["n_reference"],
        "n_samples": row["n_samples"],
    }


def _cells(measured: Measured, found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return ["", ""]
    own = shown(found["value"], measured.digits)
    paper = shown(found[COLUMN], measured.digits)
    return [own + found["stars"] if own else "", paper + found["published stars"] if paper else ""]


def measured_table(number: int, measures: pd.DataFrame, labels: Labels) -> Table:
    """Make Table 2, 3, 5 or 6.

    Parameters
    ----------
    number : int
        A key of `MEASURED_TABLES`.
    measures : pandas.DataFrame
        Schema ``tendencies``, of all sources.
    labels : Labels
        Names and order; families and kinds for the published values.

    Returns
    -------
    Table
        A row per source; for each quantity this run's value and the published one.

    Raises
    ------
    InputError
        When the measures have none of the table's quantities.
    """
    title, note, columns = MEASURED_TABLES[number]
    wanted = {(column.tendency, column.measure) for column in columns}
    pairs = zip(measures["tendency"], measures["measure"], strict=True)
    rows = measures[[pair in wanted for pair in pairs]]
    if rows.empty:
        names = ", ".join(f"{tendency} {measure}" for tendency, measure in sorted(wanted))
        raise InputError(f"table {number}: the measures have none of {names}")
    sources = labels.sort_sources(rows["source"])
    found = {
        tuple(row[key] for key in ROW_KEYS): _tidy_row(dict(row), labels)
        for row in rows.to_dict("records")
    }
    keys = [(source, c.tendency, c.measure) for source in sources for c in columns]
    body = []
    for source in sources:
        model, decoding = parse_source(source)
        cells = [labels.model(model), labels.decoding(decoding)]
        for column in columns:
            cells += _cells(column, found.get((source, column.tendency, column.measure)))
        body.append(cells)
    heads = [Column("Model", text=True), Column("Decoding", text=True)]
    for column in columns:
        heads += [Column(OWN, column.heading), Column(PAPER, column.heading, published=True)]
    tidy = pd.DataFrame([found[key] for key in keys if key in found])
    return Table(
        f"table_{number}", f"Table {number}: {title}", f"{note} {PUBLISHED_NOTE}", heads, body, tidy
    )


table_2, table_3, table_5, table_6 = (partial(measured_table, number) for number in MEASURED_TABLES)


def reference_table(
    measures: pd.DataFrame, resamples: pd.DataFrame | None, labels: Labels
) -> Table:
    """Make Table 4: the test set's parameters with their standard deviations over resamples.

    Parameters
    ----------
    measures : pandas.DataFrame
        Schema ``tendencies`` of any samples; measures ending in ``_reference`` are the test set's.
    resamples : pandas.DataFrame, optional
        Schema ``tendencies``, one source per resample of the training set; None or a single
        resample leaves the standard deviations out.
    labels : Labels
        Names.

    Returns
    -------
    Table

    Raises
    ------
    InputError
        When the measures have none of the parameters.
    """
    records, body = [], []
    for row in TEST_SET_ROWS:
        value = _first(measures, row.tendency, f"{row.measure}_reference")
        if value is None:
            continue
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
        raise InputError("table 4: the measures have no parameter of the reference")
    heads = [
        Column("Parameter", text=True),
        Column(OWN),
        Column("standard deviation"),
        Column(PAPER, published=True),
    ]
    note = (
        "Standard deviation: over resamples of the training set, each as large as the test set. "
        + PUBLISHED_NOTE
    )
    title = f"Table 4: Parameters of the {labels.reference.lower()}"
    return Table("table_4", title, note, heads, body, pd.DataFrame(records))


def _select(table: pd.DataFrame, tendency: str, measure: str) -> pd.Series:
    chosen = (table["tendency"] == tendency) & (table["measure"] == measure)
    return table.loc[chosen, "value"].dropna()


def _first(table: pd.DataFrame, tendency: str, measure: str) -> float | None:
    values = _select(table, tendency, measure)
    return None if values.empty else float(values.iloc[0])


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

    Parameters
    ----------
    models : dict
        Content of ``model.json`` by name of the model: ``family``, ``parameters``, ``vocabulary``.
    perplexities : dict
        Results of the perplexity command by name of the model; a perplexity of null is infinite.
    labels : Labels
        Names and order.

    Returns
    -------
    Table
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
                _millions(record["parameters"]),
                shown(paper_size / MILLION if paper_size else None),
                *(shown(record[f"perplexity_per_{unit}"], 2) for unit in ("token", "word")),
                shown(record["perplexity_per_word_unknown_penalized"], 2),
                shown(record[f"perplexity {COLUMN}"], 2),
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
        "None compares with the published values: another corpus and larger models. "
        + PUBLISHED_NOTE
    )
    title = "Table 1: Parameters and perplexity of the models"
    return Table("table_1", title, note, heads, body, pd.DataFrame(records))


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
        f"parameters {COLUMN}": PARAMETERS.get(family),
        **{f"perplexity_per_{unit}": value for unit, value in units.items()},
        "perplexity_per_word_unknown_penalized": penalized,
        **{f"bits_per_byte_{text}": found and found.value for text, found in bits.items()},
        **{f"bits_per_byte_{text}_low": found and found.low for text, found in bits.items()},
        **{f"bits_per_byte_{text}_high": found and found.high for text, found in bits.items()},
        f"perplexity {COLUMN}": PERPLEXITIES.get(family),
    }


def _perplexity(result: Mapping[str, Any] | None, unit: str) -> float | None:
    if result is None:
        return None
    value = result["perplexity"][unit]
    return float("inf") if value is None else float(value)


def _millions(parameters: object) -> str:
    return shown(float(str(parameters)) / MILLION, 2)
