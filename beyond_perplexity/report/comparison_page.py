"""What is made of a comparison of two sample sets: its tables, figures and page."""

from __future__ import annotations

import base64
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

import beyond_perplexity
from beyond_perplexity.errors import InputError, NothingToShowError
from beyond_perplexity.figures import draw_figure
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.numbers import (
    STAR_LEVELS,
    STAR_NOTE,
    note_alone,
    reason_withheld,
    shown,
    shown_interval,
    shown_p,
    shown_share,
    shown_signed,
    too_few_permutations,
    verdict,
    verdict_mark,
)
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.inference.p_values import needed_draws
from beyond_perplexity.report import layout
from beyond_perplexity.report.compare import (
    BASELINES,
    BaselineWords,
    CompareOptions,
    Comparison,
    compare_sample_sets,
)
from beyond_perplexity.report.examples import named_words_table
from beyond_perplexity.report.measured import TEXT_TITLES, texts_warned
from beyond_perplexity.report.sensitivity import prompt_sensitivity_table, sensitivity_table
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.storage.outputs import check_output_folder
from beyond_perplexity.tendencies import definitions
from beyond_perplexity.verdicts import CANNOT_TELL, DIFFERS, WITHOUT_VERDICT, reason_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAGE = Path(__file__).with_name("comparison_page.toml").read_text(encoding="utf-8")
# By the name of its files: a figure of `figures.FIGURES`, its title, what it shows.
PAGE_FIGURES = {
    **{name: tuple(row.values()) for name, row in tomllib.loads(_PAGE).items()},
    **{
        name: (
            f"tendencies/{row.figure}",
            f"Share of {row.noun}",
            f"Density over documents{f'; {row.noun}: {row.note}' if row.note else ''}.",
        )
        for name, row in definitions.SHARES.items()
    },
    **{
        name: (f"tendencies/{row.figure}", row.title, row.caption)
        for name, row in definitions.tendencies_of("curve").items()
        if row.figure
    },
}

CSV_COLUMNS = [name for name in TENDENCY_MEASURES.names if name not in ("source", "halves")]


class MainRow(NamedTuple):
    """A row of the main table: what is compared, its value in both texts, and its distance."""

    heading: str
    tendency: str
    value: str | None
    distance: str
    digits: int = 3


MAIN_ROWS = (
    MainRow("Length: mean, tokens", definitions.LENGTH, "mean", "ks", 1),
    *(
        MainRow(f"{row.title}: mean share", name, "mean", "ks")
        for name, row in definitions.SHARES.items()
    ),
    MainRow("Rank-frequency: Zipf's s", "rank_frequency", "zipf_s", "ks_empirical"),
    MainRow("Types by length: Heaps' β", "type_token_unigrams", "heaps_beta", "ks_empirical"),
    MainRow("Bigram types by length: β", "type_token_bigrams", "heaps_beta", "ks_empirical"),
    MainRow("Unigrams", "unigram", None, "tvd"),
    MainRow("Unigrams, largest difference", "unigram", None, "max_difference", 4),
    *(
        MainRow(
            f"{row.title}: {'α' if row.kind == 'slope' else 'mean'}",
            name,
            "alpha" if row.kind == "slope" else "mean",
            row.distance,
            4 if row.places else 3,
        )
        for name, row in definitions.OF_FAMILIES.items()
    ),
    MainRow("Embeddings of documents", definitions.EMBEDDING, None, "mmd"),
)

_MAIN_NOTE = (
    "Distance: 0 for the same distribution, 1 at most (MMD: 1.41). Distances fall with the "
    "documents, so three numbers are of one size: {baseline}. Limits and p are of all documents. "
    f"{STAR_NOTE}."
)
_RAW_NOTE = "No word is replaced: those outside of the vocabulary count as a difference."
WIDE = ("distances", "words", "vocabulary")
_Pair = tuple[MainRow, Mapping[Any, Any]]  # with the row of its distance


def _said(row: Mapping[Any, Any]) -> str:
    said = verdict(row)
    if said == CANNOT_TELL:
        return f"{said}: {reason_text(row['reason'])}"
    return f"{said}: {reason_withheld(row)}" if said == WITHOUT_VERDICT else said


def _marked(row: Mapping[Any, Any], digits: int) -> str:
    return shown(row["value"], digits) + verdict_mark(row)


def comparison_table(
    measures: pd.DataFrame, words: BaselineWords = BASELINES["halves"], *, raw: bool = False
) -> layout.Table:
    """Make the table of how far the samples are from the reference; `raw`: without a vocabulary."""
    note = _MAIN_NOTE.format(baseline=words.note)
    found = {(row["tendency"], row["measure"]): row for row in measures.to_dict("records")}
    kept = [
        (row, found[row.tendency, row.distance])
        for row in MAIN_ROWS
        if (row.tendency, row.distance) in found
    ]

    def value(ending: str) -> Callable[[_Pair], str]:
        """Write the value of one of both texts."""
        return lambda pair: shown(
            found.get((pair[0].tendency, f"{pair[0].value}{ending}"), {}).get("value"),
            pair[0].digits,
        )

    def rounded(show: Callable[[Mapping[Any, Any], int], str]) -> Callable[[_Pair], str]:
        """Write something of the distance with its digits."""
        return lambda pair: show(pair[1], 4 if pair[0].distance == "max_difference" else 3)

    columns = [
        layout.Column("Tendency", text=True, of=lambda pair: pair[0].heading),
        layout.Column("Reference", of=value("_reference")),
        layout.Column("Samples", of=value("")),
        layout.Column("Distance", of=rounded(_marked)),
        layout.Column(
            "Kind", text=True, of=lambda pair: definitions.DISTANCE_NAMES[pair[0].distance]
        ),
        layout.Column(words.heading, of=rounded(lambda row, n: shown(row["baseline"], n))),
        layout.Column("Excess", of=rounded(lambda row, n: shown_signed(row["excess"], n))),
        layout.Column(
            "95% limits", of=rounded(lambda row, n: shown_interval(row["low"], row["high"], n))
        ),
        layout.Column("Adjusted p", of=lambda pair: shown_p(pair[1]["p_adjusted"])),
        layout.Column("Verdict", wraps=True, of=lambda pair: _said(pair[1])),
        layout.Column("Note", wraps=True, of=lambda pair: note_alone(pair[1])),
    ]
    keys = {(row.tendency, row.distance) for row, _ in kept}
    pairs = zip(measures["tendency"], measures["measure"], strict=True)
    return layout.lay_out(
        "raw" if raw else "main",
        "How far are the raw texts?" if raw else "How far are the samples from the reference?",
        f"{_RAW_NOTE} {note}" if raw else note,
        columns,
        kept,
        measures[[pair in keys for pair in pairs]],
        marked=[at for at, (_, distance) in enumerate(kept) if verdict(distance) == DIFFERS],
    )


def all_measures_table(measures: pd.DataFrame) -> layout.Table:
    """Make the table of all measures, rounded."""
    columns = [
        *layout.text_columns("Tendency", "Measure"),
        layout.Column("Value", of=lambda row: _marked(row, 4)),
        layout.Column("Baseline", form=partial(shown, digits=4)),
        layout.Column("Excess", form=partial(shown_signed, digits=4)),
        layout.interval_column("95% limits"),
        layout.Column("p", of="p_value", form=shown_p),
        layout.Column("Adjusted p", of="p_adjusted", form=shown_p),
        layout.Column("p of the law", of="p_value_law", form=shown_p),
        layout.Column(
            "Note", wraps=True, of=lambda r: _said(r) if reason_withheld(r) else note_alone(r)
        ),
    ]
    few = too_few_permutations(measures.to_dict("records"))
    note = (
        f"{STAR_NOTE}. {few and f'{few}. '}The p of a law is of a test of the text against the law "
        "that is fitted to it, which says nothing of the other text; for Zipf's law it is of the "
        "split fit (ranks and frequencies of different halves), the value of the fit as in the "
        "paper. In full precision in tendencies.csv."
    )
    return layout.lay_out("measures", "All measures", note, columns, measures)


def texts_table(measures: pd.DataFrame, labels: Labels) -> layout.Table:
    """Make the table of what the texts are made of: shares of what no test sees."""
    tidy = measures[measures["tendency"] == definitions.TEXT]
    found = dict(zip(tidy["measure"], tidy["value"], strict=True))
    columns = [
        layout.Column("Share", text=True, of=TEXT_TITLES.get),
        layout.Column("Reference", of=lambda name: shown_share(found.get(f"{name}_reference"))),
        layout.Column("Samples", of=lambda name: shown_share(found.get(name))),
    ]
    names = [name for name in TEXT_TITLES if {name, f"{name}_reference"} & found.keys()]
    note = ". ".join(texts_warned(tidy.to_dict("records"), labels))
    return layout.lay_out("texts", "What the texts are made of", note, columns, names, tidy)


def sample_sets_table(comparison: Comparison) -> layout.Table:
    """Make the table of what was compared: files, documents, groups, tokens, types."""
    held = comparison.reference, comparison.samples
    sample_sets = zip(("Reference", "Samples"), held, comparison.groups, strict=True)
    rows = [
        {
            "Text": name,
            "File": str(sample_set.path),
            "Documents": sample_set.statistics.n_documents,
            "Groups": groups,
            "Tokens": sample_set.statistics.n_tokens,
            "Types": len(sample_set.statistics.types),
            "Empty, left out": sample_set.left_out,
        }
        for name, sample_set, groups in sample_sets
    ]
    grouped = any(row["Groups"] is not None for row in rows)
    columns = [
        layout.Column(name, text=True, of=name)
        if name in ("Text", "File")
        else layout.Column(
            name, of=name, form=lambda count: "none" if count is None else f"{count:,}"
        )
        for name in rows[0]
        if name != "Groups" or grouped
    ]
    title = "What was compared"
    return layout.lay_out("sample_sets", title, comparison.permuted, columns, rows, pd.DataFrame())


def _reach(measures: pd.DataFrame, permutations: int) -> str:
    """Say which stars so many permutations can give to so many tests."""
    tested = measures[measures["p_value"].notna()]
    main = {(row.tendency, row.distance) for row in MAIN_ROWS}
    keys = zip(tested["tendency"], tested["measure"], strict=True)
    families = Counter(definitions.family_of(key[0]) for key in keys if key in main)
    family = max(families.values(), default=0)
    if not family:
        return ""
    smallest = family / (permutations + 1)
    said = f"; adjusted for {family} tests the smallest p is {shown(smallest)}"
    for level, mark in STAR_LEVELS:
        needed = needed_draws(family, level, permutations)
        if needed is not None:
            said += f", and {mark} needs at least {needed:,} permutations"
    return said


def _settings(options: CompareOptions, found: Comparison) -> dict[str, str]:
    cleaning = "none (the texts are tokens already)"
    if not options.tokenized:
        cleaning = (
            "punctuation normalized, non-printing characters removed, Moses tokenizer "
            f"({options.language}), lower case, accents removed"
        )
    embedded = f"{found.encoder}; at most {options.embedding_documents:,} documents of each text"
    judged = f"{found.judge}; at most {options.judge_documents:,} documents of each text"
    reach = _reach(found.measures, options.permutations)
    return {
        "Cleaning": cleaning,
        "Stop words": f"list '{found.described['stop_words']}' (language {options.language})",
        "Symbols": "tokens of punctuation, numbers and other symbols only",
        **({"Embeddings": embedded} if found.encoder else {}),
        **({"Judge": judged} if found.judge else {}),
        "Permutations": f"{options.permutations:,}{reach}",
        "Bootstrap resamples": f"{options.bootstrap:,}",
        "Seed": str(options.seed),
        "Signature": found.signature,
        "Made with": f"beyond-perplexity {beyond_perplexity.__version__}",
    }


def comparison_page(
    found: Comparison, options: CompareOptions, figures: Mapping[str, bytes]
) -> str:
    """Write the page, one HTML file that needs no other, with SVG figures by their names."""
    title = f"{found.samples.path.name} compared with {found.reference.path.name}"
    effects = found.sensitivity
    show_effects = prompt_sensitivity_table if options.prompted else sensitivity_table
    tables = {
        "sample_sets": sample_sets_table(found),
        "main": comparison_table(found.measures, found.baseline),
        "texts": texts_table(found.measures, found.labels),
        "words": named_words_table(found.words, found.labels),
        "raw": None if found.raw is None else comparison_table(found.raw, found.baseline, raw=True),
        "sensitivity": None if effects is None else show_effects(effects, found.labels),
        "all": all_measures_table(found.measures),
    }
    sample_set = layout.render(
        "templates/comparison.html",
        title=title,
        tables={n: layout.to_html_table(t) if t and t.rows else "" for n, t in tables.items()},
        figures={name: base64.b64encode(svg).decode() for name, svg in figures.items()},
        figure_texts=PAGE_FIGURES,
        wide=WIDE,
        share_nouns=definitions.SHARE_NOUNS,
        measures=len(found.measures),
        settings=_settings(options, found),
    )
    return layout.html_page(title, sample_set)


def draw_one(name: str, comparison: Comparison) -> Figure:
    """Draw a figure of `PAGE_FIGURES`; see `figures.draw_figure`."""
    tables = {kind: getattr(comparison, kind) for kind in ("measures", "curves", "words")}
    return draw_figure(name, tables, comparison.labels)


def draw_figures(comparison: Comparison) -> dict[str, Figure]:
    """Draw every figure that the texts have the data for, by the name of its file."""
    drawn, measured = {}, set(comparison.measures["tendency"])
    for file, (name, *_) in PAGE_FIGURES.items():
        if file == definitions.NOVELTY and file not in measured:
            continue  # nobody gave a training text
        try:
            drawn[file] = draw_one(name, comparison)
        except NothingToShowError:
            remark(f"no figure '{file}': the texts hold nothing of it")
        except InputError as error:
            remark(f"no figure '{file}': {error}")
    return drawn


def comparison_text(found: Comparison) -> str:
    """Return the tables of a comparison as text, for a terminal."""
    main = comparison_table(found.measures, found.baseline)
    words = named_words_table(found.words, found.labels, terminal=True)
    tables = main, words, all_measures_table(found.measures)
    return "\n\n".join(f"{table.title}\n\n{layout.to_text(table)}" for table in tables)


def write_comparison(found: Comparison, options: CompareOptions, out: Path) -> None:
    """Write ``tendencies.csv``, ``words.csv``, figures, ``compare.html``, of answers to prompts
    also ``sensitivity.csv``; first all is drawn."""
    figures = draw_figures(found)
    files = layout.drawn_files(figures)
    tables = {"tendencies.csv": found.measures, "raw.csv": found.raw}
    page = comparison_page(found, options, {name: files[f"{name}.svg"] for name in figures})
    texts = {n: layout.csv_text(t[CSV_COLUMNS]) for n, t in tables.items() if t is not None}
    words = found.words.drop(columns="source", errors="ignore")
    if found.sensitivity is not None:
        texts["sensitivity.csv"] = layout.csv_text(found.sensitivity.drop(columns="source"))
    texts |= {"words.csv": layout.csv_text(words), "compare.html": page}
    layout.write_files(out, files | {name: text.encode() for name, text in texts.items()})


def run_comparison(options: CompareOptions, out: Path | None = None) -> Comparison:
    """Compare two files, and write what `write_comparison` writes, where a folder is given."""
    if out is not None:
        check_output_folder(out)
    with compare_sample_sets(options) as found:
        pass  # its working files are gone
    if out is not None:
        write_comparison(found, options, out)
    return found
