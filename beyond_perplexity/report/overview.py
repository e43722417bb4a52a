"""The first page of the report, as reStructuredText, and a table of what its jobs used."""

from __future__ import annotations

import base64
import math
from collections.abc import Collection, Hashable, Mapping, Sequence, Sized
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any

import pandas as pd

from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.measure_names import Descriptions, both_ways, parts_by
from beyond_perplexity.foreign_text import escape_rst
from beyond_perplexity.importance.estimate_wording import finite_bounds
from beyond_perplexity.importance.estimator import STOCHASTIC, STRICT
from beyond_perplexity.importance.ways_to_draw import load_estimators
from beyond_perplexity.inference.permuted_units import VERDICT_LEVELS
from beyond_perplexity.report.bits_per_byte import (
    BITS_HEADINGS,
    ByteBits,
    bits_per_byte,
    is_pair,
)
from beyond_perplexity.report.findings import first_sentence
from beyond_perplexity.report.importance_choice import without_choice
from beyond_perplexity.report.layout import Column, Table, lay_out, render
from beyond_perplexity.report.tendency_findings import (
    SCOPES_OF_UNITS,
    Compared,
    main_table,
    nearest_sentence,
    nearest_table,
    nearness,
    power_line,
    shares_table,
    tendency_table,
)
from beyond_perplexity.storage.benchmarks import number_of, read_benchmarks

TRAINED_HERE = {"counted", "trained", "latent"}  # kinds of families
LINE = 2000

MEANING = """Their likelihood cannot be summed. Each estimate is a stochastic upper bound of the
perplexity, the looser the fewer effective samples there are: {stochastic}. First stands the lowest
of those that need no choice of a temperature or a size; of several it is chosen among these few.
Then the lowest over proposals and temperatures, which is no bound in expectation. {strict}"""

# The sentence of the finding of a paper that the first page is told of.
FOUND_TEXTS = {
    "contrastive": (
        "*{about}* tells text from noise best: {quantity}, {value}, the highest of {of} models "
        "with a likelihood."
    ),
    "semantics": (
        "Of {of} measures of meaning {found} order some pair of models otherwise than "
        "cross-entropy on the same sentences does."
    ),
    "relations": (
        "Of {of} pairs of models, each in a measure and under a decoding, {found} stand in another "
        "order than by bits per byte (both orders significant, adjusted for all pairs)."
    ),
}


def list_table(rows: Sequence[Sequence[str]]) -> str:
    """Write rows as a table of reStructuredText, the first as its header."""
    if len(rows) < 2:
        return "Nothing was counted."
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in rows:
        lines += [f"   {'* -' if index == 0 else '  -'} {cell}" for index, cell in enumerate(row)]
    return "\n".join(lines)


def _image(figure: str | Path) -> list[str]:
    data = base64.b64encode(Path(figure).read_bytes()).decode()
    # docutils refuses long lines and joins the lines of a URL.
    pieces = [f"   {data[start : start + LINE]}" for start in range(0, len(data), LINE)]
    return [
        ".. image:: data:image/svg+xml;base64,",
        *pieces,
        "   :width: 100%",
        "   :alt: Distance to the test split in every tendency, for every sample set",
        "",
    ]


def _perplexity_rows(perplexities: Descriptions) -> list[list[str]]:
    found = {
        head: {name: bits_per_byte(result, text) for name, result in perplexities.items()}
        for text, head in BITS_HEADINGS.items()
    }
    found = {head: column for head, column in found.items() if any(column.values())}
    header = ["Model", "per token", "per word", *found, "unknown words"]
    rows = []
    for name, result in perplexities.items():
        values = [result["perplexity"]["token"], result["perplexity"]["word"]]
        shown = ["∞" if value is None else f"{value:,.2f}" for value in values]
        shown += [_shown_bits(column[name]) for column in found.values()]
        unknown = f"{100 * result['unknown_share']:.2f}%"
        rows.append([escape_rst(Labels().model(name)), *shown, unknown])
    return [header, *rows]


def _shown_bits(bits: ByteBits | None) -> str:
    if bits is None:
        return "—"
    if math.isinf(bits.value):
        return "∞"
    limits = "" if bits.low is None or bits.high is None else f" [{bits.low:.2f}, {bits.high:.2f}]"
    if bits.low_by_document is not None and bits.high_by_document is not None:
        limits = f"{limits or f' ({bits.note})'} by page"
        limits += f", [{bits.low_by_document:.2f}, {bits.high_by_document:.2f}] by document"
    return f"{bits.value:.2f}{limits}"


def _estimate_rows(estimates: pd.DataFrame) -> list[list[str]]:
    known = load_estimators()
    others = {method: one.heading for method, one in known.items() if one.heading}
    paired = [method for method, one in known.items() if "corpus" in one.levels]
    header = ["Model", "needs no choice", "by", "instances", "proposal", "effective samples"]
    rows = [[*header, "corpus", *others.values()]]
    for model, held in parts_by(estimates[estimates["measure"] == "perplexity"], "model").items():
        sampled = held[held["method"].isin(paired)].dropna(subset="value")
        instance = sampled[sampled["aggregation"] == "instance"].nsmallest(1, "value")
        corpus = sampled[sampled["pairing"] == "sample_id"]["value"].min()
        lowest = [held[held["method"] == method]["value"].min() for method in others]
        best = _best_cells(instance.to_dict("records"))
        name, bounds = escape_rst(Labels().model(model)), map(_bound, [corpus, *lowest])
        rows.append([name, *_without_choice(held), *best, *bounds])
    return rows


def _best_cells(rows: Sequence[Mapping[Hashable, Any]]) -> list[str]:
    """Write the estimate of a list of one: value, proposal, effective samples."""
    for best in rows:
        proposal = f"{best['proposal']}, τ = {best['temperature']:g}"
        effective = f"{best['ess_median']:.1f} of {best['n_samples']:.0f} (median)"
        return [_bound(best["value"]), proposal, "—" if pd.isna(best["ess_median"]) else effective]
    return ["—", "—", "—"]


def _bound(value: float) -> str:
    return "—" if pd.isna(value) else "∞" if math.isinf(value) else f"{value:,.1f}"


def _without_choice(estimates: pd.DataFrame) -> list[str]:
    """Return the lowest bound that no temperature and no size was chosen for, and what gave it."""
    free = without_choice(finite_bounds(estimates, [STOCHASTIC]))
    for row in free.nsmallest(1, "value").to_dict("records"):
        title = load_estimators()[row["method"]].title
        return [f"{row['value']:,.1f}", f"{title}, {row['proposal']}"]
    return ["—", "—"]


def _meaning() -> str:
    """Say what the estimates are to the true perplexity."""
    stochastic, strict = (
        [one.summary for one in load_estimators().values() if one.bound == bound and one.summary]
        for bound in (STOCHASTIC, STRICT)
    )
    said = {"stochastic": ", and ".join(stochastic), "strict": " ".join(strict)}
    return fill(MEANING.format(**said), 100)


def _described(corpora: Descriptions) -> str:
    return "; ".join(
        f"*{escape_rst(name)}* with "
        + ", ".join(
            f"{counts['documents']:,} {split} documents ({counts['tokens']:,} tokens)"
            for split, counts in report["splits"].items()
        )
        for name, report in corpora.items()
    )


def _compared(corpora: Descriptions, compared: Sequence[Compared], kinds: Collection[str]) -> str:
    described = f"Corpora: {_described(corpora)}."
    if not compared:
        return described
    sample_sets = sum(one.measures["source"].nunique() for one in compared)
    of_model = max(int(one.measures["n_samples"].max()) for one in compared)
    human = max(int(one.measures["n_reference"].max()) for one in compared)
    unseen = (
        "that no model has seen"
        if set(kinds) <= TRAINED_HERE
        else "that no model trained here has seen; what others have seen is not known"
    )
    return (
        f"{sample_sets} sample sets of up to {of_model:,} documents were compared with {human:,} "
        f"documents of a test split {unseen}. {described}"
    )


def _distances(
    compared: Sequence[Compared], figures: Sequence[str | Path]
) -> dict[str, object] | None:
    """Lay out what the first page has of the distances of generated text."""
    if not compared:
        return None
    measures = pd.concat([one.measures for one in compared], ignore_index=True)
    return {
        "images": "\n".join(line for figure in figures for line in _image(figure)),
        "corpora": [
            {
                "name": escape_rst(one.name),
                "scope": SCOPES_OF_UNITS.get(one.unit, "how the splits were made is not known"),
                "power": power_line(one),
                "tendencies": list_table(tendency_table(one)),
                "nearest": nearness(one.measures) and list_table(nearest_table(one.measures)),
                "shares": list_table(shares_table(one.measures)),
            }
            for one in compared
        ],
        "main_table": list_table(main_table(measures)),
    }


def _most_probable(perplexities: Descriptions, differences: pd.DataFrame | None) -> str:
    """Say under which model human text is most probable, where one number compares them, and which
    ones no paired test puts behind it."""
    found = {name: bits_per_byte(result, "cleaned") for name, result in perplexities.items()}
    known = {n: bits for n, bits in found.items() if bits and math.isfinite(bits.value)}
    if len({bits.size for bits in known.values()}) != 1:  # of none, or of several texts
        return ""
    ordered = sorted(known, key=lambda name: (known[name].value, name))
    said = {n: f"*{escape_rst(Labels().model(n))}*, {_shown_bits(known[n])}" for n in ordered}
    tests = _paired_with(ordered[0], differences)
    alike = [said[n] for n in ordered if tests.get(n, 0.0) >= VERDICT_LEVELS[0]]
    ends = f"; least under {said[ordered[-1]]}" * (tests.get(ordered[-1], 1) < VERDICT_LEVELS[0])
    ends += f". No paired test puts behind it: {'; '.join(alike)}" * bool(alike)
    return f"**Human text** is most probable in bits per byte under {said[ordered[0]]}{ends}."


def _paired_with(name: str, differences: pd.DataFrame | None) -> dict[str, float]:
    """Return the adjusted p-values of the tests of one model against others, where there are."""
    if differences is None:
        return {}
    of_text = is_pair(differences) & (differences["scored_text"] == "cleaned")
    pairs = both_ways(differences[of_text & differences["p_adjusted"].notna()])
    own = pairs[pairs["first"] == name]
    return dict(zip(own["second"], own["p_adjusted"], strict=True))


def answers(
    compared: Sequence[Compared],
    perplexities: Descriptions,
    differences: pd.DataFrame | None = None,
) -> list[str]:
    """Say which text is nearest to human text, by corpus, and which model knows that best."""
    texts = [
        _of_corpus(one.name, compared, said)
        for one in compared
        if (said := nearest_sentence(one.measures))
    ]
    likely = _most_probable(perplexities, differences)
    return [*texts, *[likely] * bool(likely)]


def _of_corpus(name: str, all_of_them: Sized, said: str) -> str:
    return f"Corpus *{escape_rst(name)}*: " * (len(all_of_them) > 1) + said


def render_overview(
    corpora: Descriptions,
    perplexities: Descriptions,
    compared: Sequence[Compared],
    kinds: Collection[str],
    estimates: pd.DataFrame | None,
    figures: Sequence[str | Path],
    findings: Mapping[str, Mapping[str, pd.DataFrame]] | None = None,
    differences: pd.DataFrame | None = None,
) -> str:
    """Write the first page, reStructuredText that needs no other file, a section a subject; figures
    are SVG, kinds are of families (``"external"`` for external samples), and `differences` those of
    perplexities."""
    return render(
        "templates/overview.rst",
        answers=answers(compared, perplexities, differences),
        described=_compared(corpora, compared, kinds),
        distances=_distances(compared, figures),
        perplexities=list_table(_perplexity_rows(perplexities)) if perplexities else "",
        meaning=_meaning(),
        estimates="" if estimates is None else list_table(_estimate_rows(estimates)),
        found={
            paper: [
                _of_corpus(name, held, first_sentence(template, table))
                for name, table in held.items()
            ]
            for paper, template in FOUND_TEXTS.items()
            if (held := (findings or {}).get(paper))
        },
    )


# ---- what jobs asked for and what they used ----

RESOURCES_NOTE = (
    "Asked is the most that a job of the rule asked for, used the median and the most of all that "
    "ended well; the share is that of the job that came closest to its limit. Where it is small "
    "the jobs wait longer for their turn than they need to, near 1 the next larger one is cut. "
    "Memory is that of the processes of the command (MB, sampled every 30 s and at the beginning: "
    "of short jobs it may be too small). CPUs is processor time by seconds."
)


def resources_table(folder: Path) -> Table:
    """Lay out what jobs asked for (if known) and used, by rule, most core hours first."""
    columns = [
        Column("rule", text=True, of="rule"),
        Column("jobs", of="jobs", form=",.0f"),
        *(
            Column(part, group, of=f"{name}_{part}", form=".2f" if part == "share" else form)
            for group, name, form in (("minutes", "minutes", ",.1f"), ("memory, MB", "mb", ",.0f"))
            for part in ("asked", "median", "most", "share")
        ),
        Column("CPUs", of="cpus", form=".2f"),
        Column("core hours", of="core_hours", form=",.1f"),
        Column("GPU hours", of="gpu_hours", form=",.1f"),
    ]
    rows = [_row(rule, held) for rule, held in read_benchmarks(folder).items() if held]
    tidy = pd.DataFrame(rows, columns=[str(column.of) for column in columns])
    tidy = tidy.sort_values(["core_hours", "rule"], ascending=[False, True], ignore_index=True)
    return lay_out("resources", "Time and memory of jobs", RESOURCES_NOTE, columns, tidy)


def _row(rule: str, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    asked = [job["resources"] if isinstance(job.get("resources"), dict) else {} for job in jobs]
    seconds, busy = ([number_of(job, name) or 0.0 for job in jobs] for name in ("s", "cpu_time"))
    gpus = [number_of(held, "gpu") or 0.0 for held in asked]
    memory = [number_of(job, "max_rss") for job in jobs]
    return {
        "rule": rule,
        "jobs": len(jobs),
        **_asked_and_used(
            "minutes", [s / 60 for s in seconds], [number_of(a, "runtime") for a in asked]
        ),
        **_asked_and_used("mb", memory, [number_of(a, "mem_mb") for a in asked]),
        "cpus": sum(busy) / sum(seconds) if sum(seconds) else None,
        "core_hours": sum(busy) / 3600,
        "gpu_hours": sum(g * s for g, s in zip(gpus, seconds, strict=True)) / 3600,
    }


def _asked_and_used(
    name: str, used: list[float | None] | list[float], asked: list[float | None]
) -> dict[str, float | None]:
    known = [value for value in used if value is not None]
    limits = [value for value in asked if value is not None]
    shares = [u / a for u, a in zip(used, asked, strict=True) if u is not None and a]
    return {
        f"{name}_asked": max(limits, default=None),
        f"{name}_median": median(known) if known else None,
        f"{name}_most": max(known, default=None),
        f"{name}_share": max(shares, default=None),
    }
