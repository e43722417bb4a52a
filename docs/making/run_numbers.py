"""The numbers that pages give of the default run: taken from a finished one, put into the pages.

`make numbers` takes them from `results` (or from the folder that RESULTS names) into
`docs/numbers.json`, with the commit and the CPU of the run, and writes each page of
`docs/templates` again. Without a finished run the pages are written from the numbers at hand.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
import pkgutil
import platform
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
import pyarrow as pa
import torch

from beyond_perplexity import schemas
from beyond_perplexity.auditing.checks import PrintedNumber
from beyond_perplexity.library.audit import AUDIT_COLUMNS
from beyond_perplexity.library.perplexity import PERPLEXITY_COLUMNS
from beyond_perplexity.library.results_folder import ResultsFolder, load_results
from beyond_perplexity.models.factored import fastest_products
from beyond_perplexity.schemas import schema_name
from beyond_perplexity.storage.benchmarks import read_benchmark
from beyond_perplexity.storage.shards import read_record

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "docs/templates"
NUMBERS = ROOT / "docs/numbers.json"
MEANINGS = ROOT / "docs/making/meanings.toml"
# Pages that are not in docs/ itself, by the name of their template.
ELSEWHERE = {"README.md": "README.md", "notebook.md": "docs/tutorials/notebook.md"}
_MADE = "<!-- Made by `make numbers` from docs/templates/{name}; edit that. -->\n"


def page_of(template: Path) -> Path:
    """Return the page that a template makes."""
    return ROOT / ELSEWHERE.get(template.name, f"docs/{template.name}")


def render(template: Path, numbers: dict[str, Any]) -> str:
    """Fill a template with numbers; a number that is not there is an error."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True, trim_blocks=True
    )
    environment.filters |= {"fixed": fixed, "count": "{:,.0f}".format, "short": short}
    made = environment.from_string(template.read_text(encoding="utf-8"))
    text = made.render(**numbers, columns=describe_columns)
    return text + _MADE.format(name=template.name)


def library_tables() -> dict[str, list[str]]:
    """Return the columns of the tables of results that are no kind of file."""
    measured = [
        f"{measure}{words}{end}"
        for words in ("", "_unknown_penalized", "_open_vocabulary")
        for measure in ("perplexity", "bits")
        for end in ("", *(() if "penalized" in words else ("_low", "_high")))
    ]
    return {
        "beyond_perplexity.perplexity": ["unit", "n", *measured],
        "load_results(...).perplexity": ["model", *PERPLEXITY_COLUMNS],
        "beyond_perplexity.audit": AUDIT_COLUMNS,
        "beyond_perplexity.audit, rosetta": [*PrintedNumber._fields, "version"],
        "beyond_perplexity.similarity": ["pair", "score", "gold"],
    }


def file_kinds() -> dict[str, list[str]]:
    """Return the columns of every kind of Parquet file, and of tables of the library alone."""
    found = {}
    for module in pkgutil.iter_modules(schemas.__path__):
        held = vars(importlib.import_module(f"{schemas.__name__}.{module.name}"))
        kinds = (kind for kind in held.values() if isinstance(kind, pa.Schema))
        found |= {schema_name(kind): kind.names for kind in kinds if schema_name(kind) != "file"}
    return found | library_tables()


def kind_of(name: str) -> str:
    """Return what the meanings call a file or table by."""
    return re.split(r"[/.] ?|, ", name)[-1]


def describe_columns(tables: dict[str, list[str]]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each kind of file and each table with rows of column, meaning, unit, when empty."""
    meanings = tomllib.loads(MEANINGS.read_text(encoding="utf-8"))
    for name, columns in {**file_kinds(), **tables}.items():
        kind = kind_of(name)
        own = (meanings.get(f"{kind}.{column}") or meanings[column] for column in columns)
        yield name, [[column, *held] for column, held in zip(columns, own, strict=True)]


def fixed(value: float, digits: int = 1) -> str:
    """Write a number with so many digits behind the point, with the sign of minus; ∞ as such."""
    if value == float("inf"):
        return "∞"
    return f"{value:,.{digits}f}".replace("-", "−")


def short(value: float, digits: int = 3) -> str:
    """Write a share or a correlation without its leading zero, as .057."""
    return re.sub(r"^(−?)0\.", r"\1.", fixed(value, digits))


def collect(results: ResultsFolder) -> dict[str, Any]:
    """Take all numbers of pages from a finished run."""
    likely, contrast = _perplexities(results), _contrasts(results)
    return {
        "run": _run(results),
        "perplexity": likely,
        "latent": _latent_models(results),
        "beside": _beside(results),
        "contrast": contrast,
        "order_pairs": _orders_agree(likely, contrast),
        "meaning": _meaning(results),
        "scheduled": _scheduled_sampling(results),
        "relations": _relations(results),
        "notebook": _notebook(results),
        "tables": _tables(results),
    }


def _tables(results: ResultsFolder) -> dict[str, list[str]]:
    """Return the columns of every table that the run has written as CSV."""
    found = {}
    tables, used = results.folder / "tables", results.folder / "benchmarks/resources.csv"
    for path in [*sorted(tables.rglob("*.csv")), used]:
        kind = "benchmarks" if path == used else path.relative_to(tables).parts[0]
        with path.open(encoding="utf-8", newline="") as file:
            found[f"{kind}/{path.stem}"] = next(csv.reader(file))
    return found


def _run(results: ResultsFolder) -> dict[str, Any]:
    folder = results.folder
    corpus = json.loads((folder / "corpora/wikipedia/extraction.json").read_text())
    vocabulary = json.loads((folder / "models/lstm/model.json").read_text())["vocabulary"]
    files = list(folder.glob("benchmarks/**/*.jsonl"))
    jobs = [(file.stat().st_mtime, *(read_benchmark(file) or (0.0, 0.0))) for file in files]
    begun = min(ended - seconds for ended, seconds, _ in jobs)
    record = read_record(str(next(folder.glob("perplexity/*.parquet"))))
    described = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    cpu = re.search(r"model name\s*: (.*)", described)
    return {
        "commit": record["git_commit"][:8],
        "cpu": re.sub(r"\(\w+\)| Processor.*", "", cpu.group(1)) if cpu else platform.processor(),
        "bfloat16": fastest_products() is torch.bfloat16,
        "jobs": len(jobs),
        "minutes": (max(ended for ended, _, _ in jobs) - begun) / 60,
        "megabytes": max(megabytes for _, _, megabytes in jobs),
        "articles": corpus["articles"],
        "paragraphs": corpus["documents"],
        "tokens": corpus["tokens"],
        "words": vocabulary["size"] - 3,  # without <s>, </s> and <unk>
        "unknown_share": json.loads((folder / "perplexity/lstm.json").read_text())["unknown_share"],
    }


def _perplexities(results: ResultsFolder) -> dict[str, Any]:
    table = results.perplexity.query("text == 'cleaned'")
    held = table.set_index(["model", "measure", "unit", "unknown_words"])["value"].to_dict()
    found: dict[str, Any] = {}
    for model in sorted(set(table["model"])):
        free = "as_unknown" if (model, "bits", "byte", "open_vocabulary") not in held else None
        made = json.loads((results.folder / f"models/{model}/model.json").read_text())
        trained = read_benchmark(results.folder / f"benchmarks/train/{model}.jsonl")
        found[model] = {
            "token": held[model, "perplexity", "token", "as_unknown"],
            "word": held.get((model, "perplexity", "word", free or "penalized")),
            "bits": held.get((model, "bits", "byte", free or "open_vocabulary")),
            "parameters": made.get("parameters"),
            "seconds": trained[0] if trained else None,
        }
    return found


def _latent_models(results: ResultsFolder) -> dict[str, Any]:
    table = results.estimates.query("measure == 'perplexity' and aggregation == 'instance'")
    found = {}
    for (model, proposal), held in table.groupby(["model", "proposal"]):
        at_one = held.query("method == 'importance_sampling' and temperature == 1")["value"]
        bounds = held.query("method == 'two_sided' and temperature == 1").set_index("basis")
        found[proposal] = {
            "model": model,
            "importance_sampling": at_one.iloc[0],
            "smc": held.query("method == 'smc'")["value"].iloc[0],
            "beam": held.query("method == 'beam' and beam_size == 10")["value"].iloc[0],
            "bounds": {
                basis: {key: row[key] for key in ("low", "high", "bound")}
                for basis, row in bounds.iterrows()
            },
        }
    return found


def _beside(results: ResultsFolder) -> dict[str, Any]:
    """Return the perplexities of the LSTM and the Transformer on the texts of each latent model."""
    table = pd.read_csv(results.folder / "tables/importance/table_beside.csv")
    held = table.set_index(["model", "beside"])["perplexity_beside"]
    return {
        model: [held[model, name] for name in ("lstm", "transformer")] for model, _ in held.index
    }


def _contrasts(results: ResultsFolder) -> dict[str, Any]:
    held = results.contrastive.set_index(["model", "measure", "unit", "level"])["value"].to_dict()
    found: dict[str, Any] = {}
    for model in sorted({key[0] for key in held}):
        levels = {
            unit: [
                held[model, "contrastive_entropy", unit, level]
                for level in (0.1, 0.3, 0.5)
                if (model, "contrastive_entropy", unit, level) in held
            ]
            for unit in ("word", "sentence")
        }
        given = results.folder / f"partitions/{model}.json"
        lengths = json.loads(given.read_text()) if given.exists() else {}
        ratio = held[model, "ratio", "sentence", 0.5]
        found[model] = {**levels, "ratio": ratio, "given": lengths.get("perplexity_given_length")}
    return found


def _orders_agree(likely: dict[str, Any], contrast: dict[str, Any]) -> dict[str, Any]:
    """Count the pairs of models with a likelihood that H_C at 10% orders as perplexity does."""
    models = sorted(contrast.keys() & likely.keys(), key=lambda name: likely[name]["token"])
    pairs = [(a, b) for k, a in enumerate(models) for b in models[k + 1 :]]
    other = [(a, b) for a, b in pairs if contrast[a]["word"][0] < contrast[b]["word"][0]]
    return {
        "models": len(models),
        "pairs": len(pairs),
        "alike": len(pairs) - len(other),
        "other": other,
    }


def _meaning(results: ResultsFolder) -> dict[str, Any]:
    table = results.semantics.query("model == 'lstm' and split == 'test' and kind == 'predicted'")
    found: dict[str, Any] = {}
    for row in table.to_dict("records"):
        own = {"value": row["value"], "baseline": row["baseline"]}
        found.setdefault(row["measure"], {})[row["evaluator"] or ""] = own
    return found


def _findings(results: ResultsFolder, subject: str) -> pd.DataFrame:
    return pd.read_csv(results.folder / f"tables/{subject}/wikipedia/findings.csv")


def _scheduled_sampling(results: ResultsFolder) -> dict[str, Any]:
    """Count the measures in which scheduled sampling is higher, clearly higher or clearly lower."""
    table = _findings(results, "semantics")
    found: dict[str, Any] = {}
    for row in table.query("quantity == 'measures'").to_dict("records"):
        model = str(row["about"]).partition(" ")[0].lower()
        found.setdefault(model, {"of": int(row["of"])})[row["verdict"]] = int(row["found"])
    orders = table.query("quantity.str.contains('order', na=False)")
    measures, pairs = orders.to_dict("records")
    clear = table.query("quantity.str.startswith('of these', na=False)")
    return {
        **found,
        "measures": [int(measures["found"]), int(measures["of"])],
        "pairs": [int(pairs["found"]), int(pairs["of"])],
        "clear": int(clear["found"].iloc[0]),
    }


def _relations(results: ResultsFolder) -> dict[str, Any]:
    table = _findings(results, "relations")
    by_verdict = table.set_index("verdict")
    counts = table.dropna(subset=["found"]).set_index("quantity")

    def row(start: str) -> pd.Series:
        return counts[counts.index.str.startswith(start)].iloc[0]

    lowest = by_verdict.loc["lowest"] if "lowest" in by_verdict.index else None
    few, compared = counts.index.str.startswith("too few"), counts.index == "intervals that hold 0"
    pairs, real = row("pairs of models"), row("of these")
    return {
        "families": int(row("families of models")["found"]),
        "models": int(row("models, of which")["found"]),
        "rows": int(row("rows, which")["found"]),
        "few": int(counts[few]["found"].sum()),
        "measures": int(counts[compared]["of"].sum()),
        "uncorrelated": int(counts[compared]["found"].sum()),
        "lowest": None
        if lowest is None
        else {key: lowest[key] for key in ("about", "value", "low", "high")},
        "pairs": int(pairs["of"]),
        "other": int(pairs["found"]),
        "real": int(real["found"]),
        "most": by_verdict.loc["the most"]["about"],
    }


def _notebook(results: ResultsFolder) -> dict[str, Any]:
    """Return what the page of notebooks prints: its queries stand there."""
    bits = results.perplexity.query(
        "measure == 'bits' and unit == 'byte' and unknown_words == 'open_vocabulary'"
    )
    known = bits[bits["low"].notna()].sort_values("value")
    distances = results.tendencies.dropna(subset=["p_adjusted", "excess"])
    kept = "decoding == 'nucleus' and model in ['lstm', 'transformer', 'trigram']"
    excess = distances.query(kept).pivot_table("excess", ["tendency", "measure"], "model")
    return {
        "bits": known[["model", "value", "low", "high"]].to_numpy().tolist(),
        "excess": excess.reset_index().to_numpy().tolist(),
    }


def main() -> None:
    """Take the numbers where there is a finished run, and write all pages."""
    folder = os.environ.get("RESULTS", str(ROOT / "results"))
    if (Path(folder) / "report.html").exists():
        numbers = collect(load_results(folder))
        NUMBERS.write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")
    elif not NUMBERS.exists():
        sys.exit(f"{folder}: no finished run; make run first")
    numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    for template in sorted(TEMPLATES.glob("*.md")):
        page_of(template).write_text(render(template, numbers), encoding="utf-8")


if __name__ == "__main__":
    main()
