"""The numbers that pages give of the default run are those of the run in results/.

Needs a finished run of config.yaml: `make run`, or the folder named by RESULTS. They hold on a CPU
that multiplies bfloat16; training on another rounds otherwise. Oracle: the files of the run.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from beyond_perplexity.library.results_folder import ResultsFolder, load_results

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(os.environ.get("RESULTS", ROOT / "results"))
MODELS = {
    "Transformer": "transformer",
    "Transformer, 4,000 BPE tokens": "transformer-bpe",
    "Transformer, adaptive softmax": "transformer-adaptive-softmax",
    "gated CNN": "cnn",
    "LSTM": "lstm",
    "LSTM, scheduled sampling": "lstm-scheduled-sampling",
    "GRU": "gru",
    "GRU, scheduled sampling": "gru-scheduled-sampling",
    "trigram, unsmoothed": "trigram",
    "Kneser–Ney of order 5": "kn-5",
    "RNN, 50 classes, half a pass": "rnn",
    "Kneser–Ney, order 3": "kn-3",
    "Kneser–Ney, order 5": "kn-5",
    "RNN, 50 classes": "rnn",
}


@pytest.fixture(scope="module")
def results() -> ResultsFolder:
    if not (RESULTS / "perplexity/lstm.json").exists():
        pytest.skip("no default run in results/: make run")
    return load_results(RESULTS)


def table_rows(page: str, beginning: str) -> list[list[str]]:
    """Return the cells of the table of a page whose heading begins so."""
    lines = (ROOT / "docs" / page).read_text().splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith(f"| {beginning}")) + 2
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def shown(value: float, like: str) -> str:
    """Write a number as a page does: with as many decimals as there."""
    if math.isinf(value):
        return "∞"
    return f"{value:,.{len(like.partition('.')[2])}f}"


def test_perplexities(results) -> None:
    table = results.perplexity.query("text == 'cleaned'")
    found = table.set_index(["model", "unknown_words", "measure", "unit"])["value"].to_dict()
    rows = table_rows("default-run.md", "model (vocabulary")
    assert len(rows) == 11
    wrong = []
    for name, _, token, word, bits, *_ in rows:
        model = MODELS[name]
        words = "penalized" if (model, "penalized", "perplexity", "word") in found else "as_unknown"
        spelled = "spelled" if (model, "spelled", "bits", "byte") in found else "as_unknown"
        values = [
            found[model, "as_unknown", "perplexity", "token"],
            found[model, words, "perplexity", "word"],
            found[model, spelled, "bits", "byte"],
        ]
        held = [token, word, bits]
        now = [shown(value, like) for value, like in zip(values, held, strict=True)]
        wrong += [(name, held, now)] if held != now else []
    assert wrong == []


def test_contrastive_entropies(results) -> None:
    keys = ["model", "measure", "unit", "level"]
    found = results.contrastive.set_index(keys)["value"].to_dict()
    rows = [row for row in table_rows("contrastive-entropy.md", "default run") if row[0] in MODELS]
    assert len(rows) == 6
    wrong = []
    for name, _, *held in rows:
        now = [
            ", ".join(
                f"{found[MODELS[name], 'contrastive_entropy', unit, level]:.{places}f}"
                for level in (0.1, 0.3, 0.5)
            )
            for unit, places in (("word", 2), ("sentence", 1))
        ]
        now.append(f"{found[MODELS[name], 'ratio', 'word', 0.5]:.2f}")
        wrong += [(name, held, now)] if held != now else []
    assert wrong == []


def test_latent_perplexities(results) -> None:
    """Sequential Monte Carlo and the strict beam, of proposals without anything chosen."""
    table = results.estimates.query("measure == 'perplexity' and aggregation == 'instance'")
    rows = {row[0]: row for row in table_rows("default-run.md", "model with latent variables")}
    proposals = [
        ("RNNG, 24 sentences, after wake training", "rnng-crf"),
        ("EntityNLM, 24 documents, tagger", "entitynlm-peeking"),
        ("KGLM, 24 documents, tagger", "kglm-peeking"),
    ]
    wrong = []
    for name, proposal in proposals:
        of = table[table["proposal"] == proposal]
        plain = of.query("method == 'importance_sampling' and temperature == 1")["value"]
        values = [plain, of.query("method == 'smc'")["value"]]
        values.append(of.query("method == 'beam' and beam_size == 10")["value"])
        now = [f"{value.iloc[0]:.1f}" for value in values]
        held = rows[name][1:4]
        wrong += [(name, held, now)] if held != now else []
    assert wrong == []
