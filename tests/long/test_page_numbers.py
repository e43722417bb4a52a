"""The numbers that pages give of the default run are those of its results.

Needs the results of a default run (`make run`), in `results` or where RESULTS says. They hold on a
CPU that multiplies bfloat16; training on another rounds otherwise. Times and sizes are of a
machine, and not compared. Oracle: the files of the run.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pandas as pd
import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.library.results_folder import ResultsFolder, load_results
from beyond_perplexity.semantics.measures import MEASURES

ROOT = Path(__file__).resolve().parents[2]
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
}
CONTRASTED = {
    "Kneser–Ney, order 3": "kn-3",
    "Kneser–Ney, order 5": "kn-5",
    "RNN, 50 classes": "rnn",
    "sentence RNN, 75, trained at 10%": "sentence-rnn-75-10",
    "... at 30%": "sentence-rnn-75-30",
    "... at 50%": "sentence-rnn-75-50",
    "sentence RNN, 150, trained at 10%": "sentence-rnn-150-10",
    **{name: MODELS[name] for name in ("GRU", "LSTM", "Transformer, adaptive softmax")},
}
# Model, proposal, and what the bracket of the row is made of.
PAIRED = [
    ("rnng", "rnng-crf", "smc"),
    ("entitynlm", "entitynlm-peeking", "smc"),
    ("entitynlm", "entitynlm-optimal", "importance_sampling"),
    ("kglm", "kglm-peeking", "smc"),
    ("kglm", "kglm-optimal", "smc"),
]
ENCODERS = {
    "MiniLM": "minilm",
    "InferSent's architecture": "infersent",
    "SkipThought": "skipthought",
}


@pytest.fixture(scope="module")
def results() -> ResultsFolder:
    folder = os.environ.get("RESULTS", str(ROOT / "results"))
    try:
        return load_results(folder)
    except InputError as error:
        pytest.skip(f"no finished run: {error}")


def table_of(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the rows of a table."""
    _, _, rest = (ROOT / "docs" / page).read_text().partition(f"\n| {heading}")
    assert rest, heading
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def rows_of(page: str, heading: str) -> dict[str, list[str]]:
    """Return the cells of a table by the first one of each row."""
    return {first: cells for first, *cells in table_of(page, heading)}


def is_shown(cell: str, value: float) -> bool:
    """Tell whether a cell is the value, rounded to as many places as the cell has."""
    if cell == "∞" or value == float("inf"):
        return cell == "∞" and value == float("inf")
    text = cell.replace(",", "").replace("−", "-")
    places = len(text.partition(".")[2])
    return abs(float(text) - value) <= 0.5 * 10**-places * (1 + 1e-6)


def test_perplexities(results) -> None:
    """Word, unknown penalized; of subwords, which know all words, per word."""
    table = results.perplexity.query("text == 'cleaned'")
    held = table.set_index(["model", "measure", "unit", "unknown_words"])["value"]
    rows = rows_of("default-run.md", "model (vocabulary of")
    assert rows.keys() == MODELS.keys()
    for label, name in MODELS.items():
        free = "as_unknown" if name.endswith("bpe") else None
        _, token, word, bits = rows[label][:4]
        assert is_shown(token, held[name, "perplexity", "token", "as_unknown"]), label
        assert is_shown(word, held[name, "perplexity", "word", free or "penalized"]), label
        assert is_shown(bits, held[name, "bits", "byte", free or "spelled"]), label


def test_latent_models(results) -> None:
    rows = table_of("default-run.md", "model with latent variables")
    assert len(rows) == len(PAIRED)
    table = results.estimates.query("measure == 'perplexity' and aggregation == 'instance'")
    for pair, (label, plain, filtered, beam, bracket, _) in zip(PAIRED, rows, strict=True):
        held = table[(table["model"] == pair[0]) & (table["proposal"] == pair[1])]
        at_one = held.query("method == 'importance_sampling' and temperature == 1")["value"]
        assert is_shown(plain, at_one.item()), label
        assert is_shown(filtered, held.query("method == 'smc'")["value"].item()), label
        widest = held.query("method == 'beam' and beam_size == 10")["value"]
        assert is_shown(beam, widest.item()), label
        ends, claim = bracket.split(", ")
        bounds = held[(held["method"] == "bracket") & (held["basis"] == pair[2])]
        row = bounds.query("temperature == 1").iloc[0]
        low, high = ends.split(" to ")
        assert is_shown(low, row["low"]), (label, row["low"])
        assert is_shown(high, row["high"]), (label, row["high"])
        assert row["bound"] == {"two-sided": "two-sided", "no claim": "two-sided?"}[claim], label


def test_contrastive_entropies(results) -> None:
    held = results.contrastive.set_index(["model", "measure", "unit", "level"])["value"]
    scores = results.perplexity.query(
        "text == 'cleaned' and measure == 'perplexity' and unit == 'token'"
        " and unknown_words == 'as_unknown'"
    )
    likely = scores.set_index("model")["value"]
    rows = rows_of("contrastive-entropy.md", "default run, 200 test sentences")
    assert rows.keys() == CONTRASTED.keys()
    for label, name in CONTRASTED.items():
        perplexity, words, sentences, ratio = rows[label]
        if perplexity.startswith("≥"):
            path = results.folder / f"partitions/{name}.json"
            given = json.loads(path.read_text())["perplexity_given_length"]
            assert is_shown(perplexity.split()[1], given), (label, given)
        else:
            assert is_shown(perplexity, likely[name]), (label, likely[name])
        for unit, cell in (("word", words), ("sentence", sentences)):
            if re.match(r"\d", cell):
                for level, number in zip((0.1, 0.3, 0.5), cell.split(", "), strict=True):
                    value = held[name, "contrastive_entropy", unit, level]
                    assert is_shown(number, value), (label, unit, level, value)
        assert is_shown(ratio, held[name, "ratio", "sentence", 0.5]), label


def test_meaning(results) -> None:
    table = results.semantics.query("model == 'lstm' and split == 'test' and kind == 'predicted'")
    by_title = {row.title: name for name, row in MEASURES.items()}
    for label, (_, _, cell) in rows_of("meaning.md", "measure (high is best").items():
        of_measure = table[table["measure"] == by_title[label]].set_index("evaluator")
        for part in cell.split("; "):
            found = re.fullmatch(r"(.*?) ?([\d.−]+) \((.+)\)", part)
            if found is None:
                assert part == "needs labels"
                continue
            name = ENCODERS.get(found.group(1))
            row: pd.Series = of_measure.loc[name] if name else of_measure.iloc[0]
            assert is_shown(found.group(2), row["value"]), label
            assert found.group(3) == "none" or is_shown(found.group(3), row["floor"]), label
