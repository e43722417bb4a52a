"""Results as DataFrames: every kind is found, what a path tells is a column, nothing is read twice.

Needs no data. Oracles: the rows that were written, and the rules of the workflow.
"""

import copy
import math
import pickle
import re
from pathlib import Path

import pyarrow as pa
import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.library.results_folder import RESULT_KINDS, load_results
from beyond_perplexity.schemas.contrastive import CONTRAST_DIFFERENCES, CONTRASTS
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.storage import outputs, shards
from tests.unit.evaluator_oracles import check_refused

ROOT = Path(__file__).resolve().parents[2]
SUMMARY = {"text": "raw", "split": "test", "documents": 3, "unknown_share": 0.0}
SUMMARY |= {"n": {"token": 7, "byte": 50}, "perplexity": {"token": 20.0}, "bits": {"byte": 1.5}}
SUMMARY |= {"interval": {"perplexity": {"token": [18.0, 23.0]}, "bits": {"byte": [1.25, 1.75]}}}
RECORD = {"script": "scripts/measure_perplexity.py", "seed": 5, "options": {"split": "test"}}
CLEANED = {"text": "cleaned", "documents": 3, "unknown_share": 0.5, "n": {"token": 6, "byte": 48}}
CLEANED |= {"perplexity": {"token": None}, "unknown_penalized": {"perplexity": {"token": 64.0}}}
CLEANED |= {"open_vocabulary": {"bits": {"byte": 2.5}}}
CLEANED |= {"interval": {"open_vocabulary": {"bits": {"byte": [2.0, 3.0]}}}}
SUMMARY |= {"record": RECORD, "cleaned": CLEANED}


def write(path: Path, schema: pa.Schema, *rows: dict[str, object]) -> None:
    """Write rows whose other columns are null."""
    columns = {name: [row.get(name) for row in rows] for name in schema.names}
    path.parent.mkdir(parents=True, exist_ok=True)
    shards.write_shard(path, schema, columns, {"script": "scripts/x.py", "seed": 1})


def write_tree(folder: Path) -> None:
    """Write some of the files that a run leaves."""
    (folder / "perplexity").mkdir(parents=True)
    outputs.write_json(folder / "perplexity/gru.json", SUMMARY)
    for source, value in (("gru/beam", 1.0), ("gru/nucleus", 2.0), ("external/mine", 3.0)):
        row = {"source": source, "tendency": "length", "measure": "ks", "value": value}
        row |= {"excess": value / 2, "p_adjusted": 0.25}
        write(folder / f"tendencies/{source}/measures.parquet", TENDENCY_MEASURES, row)
    joined = {"source": "gru/beam", "tendency": "embedding", "measure": "mmd", "value": 4.0}
    again = {"source": "gru/beam", "tendency": "length", "measure": "ks", "value": 1.0}
    write(folder / "embeddings/wiki/measures.parquet", TENDENCY_MEASURES, again, joined)
    write(folder / "contrastive/wiki/gru.parquet", CONTRASTS, {"model": "gru", "value": 0.5})
    write(folder / "contrastive/wiki/differences.parquet", CONTRAST_DIFFERENCES, {"first": "gru"})
    outputs.write_json(folder / "configuration.json", {"seed": 1})


@pytest.fixture
def tree(tmp_path) -> Path:
    folder = tmp_path / "some [results]"  # whose name is no pattern
    write_tree(folder)
    return folder


def test_only_what_is_there_is_named_by_its_pattern_and_kind(tree) -> None:
    results = load_results(tree)
    there = ["perplexity", "tendencies", "contrastive", "contrastive_differences"]
    assert (list(results), results.contents["files"].tolist()) == (there, [1, 4, 1, 1])
    assert set(there) <= set(dir(results))
    assert "semantics" not in results
    assert not hasattr(results, "semantics")
    with pytest.raises(KeyError, match="has no 'semantics'; there are perplexity"):
        results["semantics"]
    rows = results.contrastive[["corpus", "model", "value"]].to_numpy().tolist()
    assert rows == [["wiki", "gru", 0.5]]
    assert results["contrastive_differences"]["first"].tolist() == ["gru"]
    page = results._repr_html_()  # names of folders are no markup
    assert "some" not in page
    assert "<table" in page


def test_a_body_of_text_is_told_once_and_perplexities_are_a_row_a_number(tree) -> None:
    """What joins the measures of all sample sets stands for their own files; others are kept."""
    table = load_results(tree).tendencies
    rows = table[["model", "decoding", "measure", "value", "corpus"]].fillna("").to_numpy().tolist()
    assert rows == [
        *(["gru", "beam", "ks", 1.0, "wiki"], ["gru", "beam", "mmd", 4.0, "wiki"]),
        *(["external", "mine", "ks", 3.0, ""], ["gru", "nucleus", "ks", 2.0, ""]),
    ]
    table = load_results(tree).perplexity
    names = ["model", "text", "split", "unknown_words", "measure", "unit", "value", "low", "high"]
    assert table[[*names, "n"]].astype(object).fillna("").to_numpy().tolist() == [
        ["gru", "raw", "test", "as_unknown", "perplexity", "token", 20.0, 18.0, 23.0, 7],
        ["gru", "raw", "test", "as_unknown", "bits", "byte", 1.5, 1.25, 1.75, 50],
        ["gru", "cleaned", "test", "as_unknown", "perplexity", "token", math.inf, "", "", 6],
        ["gru", "cleaned", "test", "penalized", "perplexity", "token", 64.0, "", "", 6],
        ["gru", "cleaned", "test", "open_vocabulary", "bits", "byte", 2.5, 2.0, 3.0, 48],
    ]
    assert {str(table[name].dtype) for name in ("value", "low", "high")} == {"float64"}


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_results_can_be_copied_and_sent(tree, again) -> None:
    results = load_results(tree)
    results.contrastive  # noqa: B018  # what has been read goes along
    found = again(results)
    assert list(found) == list(results)
    assert found.tendencies.equals(results.tendencies)


@pytest.mark.parametrize(
    "text",
    [
        *('{"n": 3, "perplexity": {"token": 2.0}}', '{"n": {}, "perplexity": [1]}'),
        *('{"perplexity": {"token": 3.0}}', '{"n": {}, "perplexity": {"token": "x"}}'),
        '{"n": {}, "interval": 3, "perplexity": {"token": 3.0}}',
        '{"n": {}, "interval": {"perplexity": {"token": 1}}, "perplexity": {"token": 3.0}}',
        "[]",
        "{",
    ],
)
def test_a_file_that_is_no_perplexity_is_one_line(tree, text) -> None:
    (tree / "perplexity/gru.json").write_text(text)
    with pytest.raises(InputError, match=r"gru\.json: is .*make it again") as raised:
        load_results(tree).perplexity  # noqa: B018
    assert "\n" not in str(raised.value)


def test_configuration_records_and_tables_that_are_the_callers_own(tree) -> None:
    results = load_results(tree)
    assert results.configuration == {"seed": 1}
    (tree / "configuration.json").unlink()
    with pytest.raises(InputError, match=r"configuration\.json: no such file; run the workflow"):
        results.configuration  # noqa: B018
    records = results.records.set_index("file")
    assert records.loc["perplexity/gru.json", "seed"] == 5
    of_contrast = records.loc["contrastive/wiki/gru.parquet", ["kind", "script"]]
    assert of_contrast.tolist() == ["contrastive", "scripts/x.py"]
    assert len(records) == 7
    check_refused("no such folder; name the folder of results", load_results, tree / "none")
    check_refused("holds no measures", load_results, tree / "perplexity")
    first = results.contrastive
    first["value"] = 7.0
    for path in (tree / "contrastive/wiki").iterdir():
        path.write_bytes(b"")
    assert results.contrastive["value"].tolist() == [0.5]
    with pytest.raises(InputError, match=r"differences\.parquet"):
        results["contrastive_differences"]


def test_every_kind_is_what_a_rule_writes() -> None:
    """Each pattern is an output of a rule, whatever its wildcards are called there."""
    rules = "\n".join(path.read_text() for path in (ROOT / "rules").glob("*.smk"))
    rules = rules.replace("{reduced}", "estimates").replace("{{measures,raw", "")
    written = {re.sub(r"\{[^}]*\}", "*", name) for name in re.findall(r'<results>/([^"]+)"', rules)}
    for name, kind in RESULT_KINDS.items():
        suffix = ".parquet" if kind.schema else ""
        for pattern in kind.files:
            assert re.sub(r"\{[^}]*\}", "*", f"{pattern}{suffix}") in written, name
