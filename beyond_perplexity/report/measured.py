"""Tables 2 to 6 of the tendencies paper, and the distances in raw text, from measures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from beyond_perplexity.errors import NothingToShowError
from beyond_perplexity.figures import numbers
from beyond_perplexity.figures.labels import Labels, parse_source
from beyond_perplexity.report.layout import Column, Table, lay_out
from beyond_perplexity.report.published import (
    COLUMN,
    OWN,
    PAPER,
    PUBLISHED_NOTE,
    is_published,
    published,
)
from beyond_perplexity.tendencies import definitions
from beyond_perplexity.verdicts import DIFFERS

# By the measure; the human text's own ends in ``_reference``.
TEXT_TITLES = {
    "unknown_share": "Tokens read as unknown",
    "unfinished_share": "Documents that did not end by themselves",
    "duplicate_share": "Documents that repeat an earlier one",
    "training_8grams": "8 tokens in a row that stand in the training text",
    "cut_share": "Documents cut at the longest length",
    **{
        f"distinct_{n}grams": f"Distinct ones among the n-grams of all documents, n = {n}"
        for n in (1, 2, 3, 4)
    },
    "fragment_share": "Fragments: documents without the end of a sentence",
    "compression_joined": "Compressed bytes of a byte, all documents together",
}
# The columns of those that not only the page of a comparison shows.
TEXT_SHARES = dict(
    zip(
        TEXT_TITLES, ("read as unknown", "unfinished", "duplicates", "copied 8-grams"), strict=False
    )
)

DOCUMENT_ROWS = definitions.tendencies_of("length", "share")
BASELINE_NOTE = (
    "First row: the human baseline, the mean distance of two human texts of one size, read in the "
    "same vocabulary (a range where sizes differ). Excess: distance minus baseline, at this "
    "number of documents."
)
TEXT_NOTE = (
    "Share of the text: tokens that are read as unknown (words that the model does not write, or "
    "that are too rare to be compared), documents that did not end by themselves but at the cap "
    "generation.maximum_length (its value: the column data of the CSV), documents that repeat an "
    "earlier one word for word, sequences of 8 tokens that stand in the training text."
)
BASELINE = "baseline"
EXCESS, INTERVAL, RANKED = "excess", "95% interval", "ranks"
_COUNT, _BITS = "{:,.0f}".format, "{:.3f}".format
REASONS = 4  # that a note lists; all are in the CSV


class Measured(NamedTuple):
    """A measured quantity that a table shows, and its heading."""

    tendency: str
    measure: str
    heading: str
    digits: int = 3

    @property
    def key(self) -> tuple[str, str]:
        """Tendency and measure."""
        return self.tendency, self.measure


class Specification(NamedTuple):
    """What a table shows: a row per model and decoding, a few columns per quantity, and first the
    `human` text's, by `BASELINE` or the name of its own measure."""

    name: str
    title: str
    note: str
    columns: tuple[Measured, ...]
    human: str = BASELINE
    of_paper: bool = True
    baseline: tuple[str, str] = ("Human text against itself", BASELINE_NOTE)  # title, note


_UNIGRAMS = (
    Measured("unigram", "tvd", "Unigram TVD"),
    Measured("unigram", "tvd_1000", "Unigram TVD, first 1,000 ranks"),
    Measured("unigram", "max_difference", "Unigram largest difference", 4),
)

MEASURED_TABLES = {
    2: Specification(
        "table_2",
        "Table 2: Distances of rank-frequency and of unigrams",
        "KS: Kolmogorov-Smirnov distance over the first ranks; those to a Zipf fit test a law and "
        "not the text, and so have no stars (their p is in the CSV). TVD: total variation, half of "
        "the sum of all differences. Largest difference: of the probability of a single word (the "
        "paper prints it under the name tvd); the last column leaves unknown words out.",
        (
            Measured("rank_frequency", "ks_zipf_model", "KS to the samples' Zipf fit"),
            Measured("rank_frequency", "ks_zipf_reference", "KS to the test set's Zipf fit"),
            Measured("rank_frequency", "ks_empirical", "KS to the test set"),
            *_UNIGRAMS,
            Measured("unigram", "max_difference_known", "Largest difference, known words", 4),
        ),
    ),
    3: Specification(
        "table_3",
        f"Table 3: Distances of length, {definitions.SHARE_NOUNS}",
        "KS: Kolmogorov-Smirnov distance to the test set, over documents; "
        f"{definitions.SHARE_NOUNS} as a share of a document's tokens.",
        tuple(
            Measured(name, row.distance, f"{row.title} KS") for name, row in DOCUMENT_ROWS.items()
        ),
    ),
    5: Specification(
        "table_5",
        "Table 5: Parameters fitted to the samples",
        "Zipf: frequency falls with rank to the power of s. The paper's fit ranks the types by the "
        "frequencies that it fits, which makes s too large; the split fit takes the ranks from one "
        "half of the text and the frequencies from the other, over the ranks with at least 10 "
        "occurrences; its interval is for the ranks as this text orders them, which in a short "
        "text is not yet the exponent of a law behind it. Heaps: types grow with length to the "
        "power of β (unigrams).",
        (
            Measured("rank_frequency", "zipf_s", "Zipf s, the paper's fit"),
            Measured("rank_frequency", "zipf_s_split", "Zipf s, split fit"),
            Measured("type_token_unigrams", "heaps_beta", "Heaps β"),
        ),
        human="{measure}_reference",
    ),
    6: Specification(
        "table_6",
        "Table 6: Mean of the samples minus mean of the test set",
        f"Length in tokens; {definitions.SHARE_NOUNS} as a share of a document's tokens. The test "
        "of a difference of means is two-sided. First row: the means of the human text.",
        tuple(
            Measured(name, "mean_difference", row.title, 4 if name in definitions.SHARES else 3)
            for name, row in DOCUMENT_ROWS.items()
        ),
        human="mean_reference",
    ),
    "order": Specification(
        "order",
        "Distances of the order and repetition of words",
        "Documents of both texts are cut to one size, which half of the test set's documents have; "
        "shorter ones are left out (how many are compared: the column note of the CSV). KS: over "
        "documents. Largest difference: of mean curves. Their tests are a family of their own.",
        tuple(
            Measured(name, row.distance, f"{row.title} {row.distance_name}")
            for name, row in definitions.OF_FAMILIES.items()
        ),
        of_paper=False,
    ),
}
RAW_TABLE = Specification(
    "raw_distances",
    "Distances in raw text",
    "The same comparison with no word replaced: whatever a closed vocabulary cannot write counts "
    "as a difference, so that the text of even a perfect closed-vocabulary model differs here.",
    (
        *(
            Measured(name, row.distance, f"{row.title} {row.distance_name}")
            for name, row in definitions.of_counts().items()
            if row.distance and not row.family
        ),
        _UNIGRAMS[-1],
    ),
    of_paper=False,
)
PROMPTS_TABLE = RAW_TABLE._replace(
    name="prompts",
    title="Continuations of human prompts",
    note="Models continued the first words of human documents, and are compared with how people "
    "went on, labels being permuted within prompts: what documents are about plays no part.",
    baseline=(
        "Labels permuted",
        "First row: the mean distance where labels are permuted within prompts, as people wrote "
        "one continuation; the excess is what a distance has above it.",
    ),
)
# Columns that a quantity has besides its value: what else must be known to read it.
RANKS_OF = {"zipf_s_split": "zipf_ranks"}
# What a judge says of texts on average: the controls stand in the note.
JUDGE_MEANS = {
    "mean_reference": "human text",
    "mean_training": "the training text",
    "mean_own_samples": "samples of the judge",
    "mean": "the sample sets",
}

_Found = Mapping[Any, dict[str, Any]]  # by source, tendency and measure
_NAMES = {"Model": "model", "Decoding": "decoding", "Read in": "vocabulary"}


def _tidy_row(row: Mapping[Any, Any], labels: Labels) -> dict[str, Any]:
    """Lay a measured row beside the published value of the same family and decoding."""
    model, decoding = parse_source(str(row["source"]))
    family = labels.families.get(model, model)
    kind = labels.kinds.get(decoding, decoding)
    paper = published(str(row["tendency"]), str(row["measure"]), family, kind)
    return {
        "source": row["source"],
        "model": labels.model(model),
        "decoding": labels.decoding(decoding),
        **{name: value for name, value in row.items() if name != "source"},
        "stars": numbers.stars(row["p_adjusted"]) if numbers.verdict(row) == DIFFERS else "",
        "mark": numbers.verdict_mark(row),
        COLUMN: paper.value if paper else None,
        f"{COLUMN}_stars": paper.stars if paper else "",
    }


def _columns(specification: Specification) -> list[Column]:
    """Make the columns of lines, whose cells have headings and parts as keys."""
    columns = [Column(title, text=True, of=name) for title, name in _NAMES.items()]
    for one in specification.columns:
        with_baseline, ranked = definitions.is_distance(one.measure), one.measure in RANKS_OF
        in_paper = specification.of_paper and is_published(*one.key)
        parts = [OWN, *[EXCESS] * with_baseline, *[INTERVAL, RANKED] * ranked, *[PAPER] * in_paper]
        columns += [
            Column(part, one.heading, published=part == PAPER, of=f"{one.heading}/{part}")
            for part in parts
        ]
    shares = TEXT_SHARES.values()
    return columns + [Column(title, "Share of the text", of=title) for title in shares]


def _each(
    found: _Found, sources: Sequence[str], key: tuple[str, str], column: str = "value"
) -> list[float]:
    """List what a column has of a quantity of some sources."""
    return [found[source, *key][column] for source in sources if (source, *key) in found]


def _cells(
    found: _Found, sources: Sequence[str], one: Measured, human: str
) -> Iterator[tuple[str, str]]:
    """Write the parts of a quantity of a sample set, or what human text has of it (`human`)."""
    write = partial(numbers.shown, digits=one.digits)
    if human == BASELINE:
        yield OWN, numbers.shown_range(_each(found, sources, one.key, BASELINE), write)
        return
    ranks = (one.tendency, f"{RANKS_OF.get(one.measure)}{'_reference' if human else ''}")
    yield RANKED, numbers.shown_range(_each(found, sources, ranks), _COUNT)
    key = (one.tendency, human.format(measure=one.measure) or one.measure)
    row = found.get((sources[0], *key), {})
    yield INTERVAL, numbers.shown_interval(row.get("low"), row.get("high"))
    if human:
        yield OWN, numbers.shown_range(_each(found, sources, key), write)
    elif row:
        yield OWN, write(row["value"]) + row["mark"]
        yield EXCESS, numbers.shown_signed(row[EXCESS], one.digits)
        yield PAPER, write(row[COLUMN]) and write(row[COLUMN]) + row[f"{COLUMN}_stars"]


def _line(
    found: _Found, sources: Sequence[str], specification: Specification, human: str = ""
) -> dict[str, str]:
    """Write the row of a sample set, or of human text as some sample sets are compared with it."""
    first = next(row for key, row in found.items() if key[0] == sources[0])
    line = defaultdict(str, {name: str(first[name] or "") for name in _NAMES.values()})
    if human:
        title = specification.baseline[0] if human == BASELINE else "Human text"
        line |= {"model": title, "decoding": ""}
    for one in specification.columns:
        parts = _cells(found, sources, one, human)
        line |= {f"{one.heading}/{part}": cell for part, cell in parts}
    for measure, title in TEXT_SHARES.items():
        key = (definitions.TEXT, f"{measure}_reference" if human else measure)
        line[title] = numbers.shown_range(_each(found, sources, key), numbers.shown_share)
    return line


def texts_warned(rows: Iterable[Mapping[Any, Any]], labels: Labels) -> list[str]:
    """Say which documents depend on each other, of the sample sets and of the reference."""
    told: dict[tuple[str, str], None] = {}
    for row in rows:
        if row["tendency"] == definitions.TEXT and isinstance(row["note"], str) and row["note"]:
            human = row["measure"].endswith("_reference")
            told["Reference" if human else labels.source(row["source"]), row["note"]] = None
    return [f"{name}: {note}" for name, note in told]


def _withheld(found: _Found, columns: Sequence[Measured]) -> str:
    """Say why verdicts are withheld: a few of the reasons, each with what it is about."""
    sample_sets = {source for source, _, _ in found}
    reasons: dict[tuple[str, str], list[str]] = {}
    for column in columns:
        for key, row in found.items():
            if key[1:] == column.key and row["mark"] == numbers.WITHHELD:
                about = (column.heading, numbers.reason_withheld(row))
                reasons.setdefault(about, []).append(f"{row['model']} {row['decoding'].lower()}")
    if not reasons:
        return ""
    said = [
        f"{heading}{'' if len(own) == len(sample_sets) else ' of ' + ', '.join(own)}: {reason}"
        for (heading, reason), own in reasons.items()
    ]
    more = f"; {len(said) - REASONS} more in the CSV" if len(said) > REASONS else ""
    return f"{numbers.WITHHELD} No verdict. {'; '.join(said[:REASONS])}{more}."


def _judged(found: _Found, sources: Sequence[str]) -> str:
    """Say what a judge says of texts on average, its controls among them."""
    means = {
        title: numbers.shown_range(_each(found, sources, (definitions.JUDGE, measure)), _BITS)
        for measure, title in JUDGE_MEANS.items()
    }
    said = "; ".join(f"{title} {mean}" for title, mean in means.items() if mean)
    return f"Bits per byte under the judge, on average: {said}." if said else ""


def measured_table(specification: Specification, measures: pd.DataFrame, labels: Labels) -> Table:
    """Make Table 2, 3, 5 or 6, or the one of raw text, human text first, then a row per source."""
    name, columns = specification.name, specification.columns
    wanted = [column.key for column in columns]
    records = measures.to_dict("records")
    found = {(r["source"], r["tendency"], r["measure"]): _tidy_row(r, labels) for r in records}
    sources = labels.sort_sources(source for source, *key in found if tuple(key) in wanted)
    if not sources:
        names = ", ".join(map(" ".join, sorted(wanted)))
        raise NothingToShowError(f"{name.replace('_', ' ')}: the measures have none of {names}")
    if not specification.of_paper:  # a run without a judge has no column of it
        held = {tuple(key) for _, *key in found}
        columns = tuple(column for column in columns if column.key in held)
        specification = specification._replace(columns=columns)
    lines = [_line(found, [source], specification) for source in sources]
    groups: dict[str, list[str]] = {}
    for source, line in zip(sources, lines, strict=True):
        groups.setdefault(line["vocabulary"], []).append(source)
    human = [_line(found, own, specification, specification.human) for own in groups.values()]
    kept = wanted + [(definitions.TEXT, measure) for measure in TEXT_SHARES]
    kept += [(c.tendency, RANKS_OF[c.measure]) for c in columns if c.measure in RANKS_OF]
    judged = any(column.tendency == definitions.JUDGE for column in columns)
    kept += [(definitions.JUDGE, measure) for measure in JUDGE_MEANS if judged]
    keys = ((source, *key) for source in sources for key in kept)
    return lay_out(
        name,
        specification.title,
        _note(specification, found, labels, _judged(found, sources) * judged),
        _columns(specification),
        [*human, *lines],
        pd.DataFrame([found[key] for key in keys if key in found]),
        published_note=PUBLISHED_NOTE * specification.of_paper,
    )


def _note(specification: Specification, found: _Found, labels: Labels, more: str) -> str:
    said = [specification.note, more, specification.baseline[1] * (specification.human == BASELINE)]
    if any(definitions.compares_texts(column.measure) for column in specification.columns):
        few = numbers.too_few_permutations(found.values())
        said += [f"{numbers.STAR_NOTE}.", few and f"{few}."]
    said += [
        TEXT_NOTE,
        *(f"{warned}." for warned in texts_warned(found.values(), labels)[:REASONS]),
    ]
    return " ".join(filter(None, [*said, _withheld(found, specification.columns)]))


table_2 = partial(measured_table, MEASURED_TABLES[2])
order_table = partial(measured_table, MEASURED_TABLES["order"])
table_3 = partial(measured_table, MEASURED_TABLES[3])
table_5 = partial(measured_table, MEASURED_TABLES[5])
table_6 = partial(measured_table, MEASURED_TABLES[6])
raw_distances = partial(measured_table, RAW_TABLE)
prompts_table = partial(measured_table, PROMPTS_TABLE)
