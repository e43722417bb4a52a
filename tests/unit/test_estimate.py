"""Bring your own weights: the command, Parquet and CSV, and what is said of wrong rows.

Oracles: SciPy's logsumexp, equality of the two formats, and the row that was made wrong.
"""

import csv
import gzip
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from scipy.special import logsumexp

import beyond_perplexity
from beyond_perplexity.commands.library_functions import run_function
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.draw_files import WeightLabels
from beyond_perplexity.importance.estimate_wording import ERRORS, k_hat_cell, sampling_error
from beyond_perplexity.importance.weight_files import WeightReader
from beyond_perplexity.schemas.estimates import ESTIMATES, IMPORTANCE_DIAGNOSTICS
from beyond_perplexity.storage.shards import read_batches
from tests.unit.evaluator_oracles import check_refused
from tests.unit.latent_tables import model, rewritten, sample_columns, write_beams, write_weights

P = model(3, 4)
K, NAN = 30, np.nan
ALL = sample_columns(P, 1.0, K)
MINIMAL = {name: ALL[name] for name in ("instance_id", "sample_id", "n_tokens", "log_p", "log_q")}
FAST = ["--options", '{"subsets": 10, "bootstrap": 10}']


def run(*flags):
    run_function("estimate", [*map(str, flags), *FAST])


def changed(name, row, value):
    column = MINIMAL[name].astype(str if isinstance(value, str) else MINIMAL[name].dtype).tolist()
    column[row] = value
    return {**MINIMAL, name: np.array(column)}


def csv_lines(columns=MINIMAL):
    """Return the lines of a CSV file, the first of them the names."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [",".join(columns), *(",".join(map(repr, row)) for row in rows)]


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "w.parquet"
    pq.write_table(pa.table(MINIMAL), path)
    return path


def test_the_table_and_a_line_for_every_number(weights, capsys):
    output = weights.with_name("estimates.csv")
    run("--weights", weights, "--output", output)
    said = capsys.readouterr().out
    log_w = (ALL["log_p"] - ALL["log_q"]).reshape(3, K)
    value = np.exp(-(logsumexp(log_w, 1) - np.log(K)).sum() / 9)
    table, *lines, _ = said.split("\n\n")  # the last is the signature
    assert len(lines) == len(table.splitlines()) - 1 == 5
    assert f"Perplexity {value:,.2f} by importance sampling; instance level" in lines[0]
    assert "a stochastic upper bound" in lines[0]
    assert "K = 30 samples, 3 instances, T = 9 (the sum of n_tokens as given)" in lines[0]
    with open(output, newline="") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[0]["value"]) == pytest.approx(value, rel=1e-13)


def test_the_error_that_is_shown_and_its_source_and_a_k_hat_that_is_undefined():
    nothing = dict.fromkeys(ERRORS)
    assert sampling_error(nothing) == (None, "")
    assert sampling_error({**nothing, "standard_deviation": 3.0}) == (3.0, "pairings")
    both = {**nothing, "standard_error": float("nan"), "standard_error_samples": 2.0}
    assert sampling_error(both) == (2.0, "bootstrap")
    assert sampling_error({**both, "standard_error": 1.0}) == (1.0, "delta method")
    assert k_hat_cell(0, 20, 20) == "– (20 undefined)"
    assert (k_hat_cell(26, 10, 40), k_hat_cell(0, 0, 20)) == ("26/30 (10 undefined)", "0/20")
    assert k_hat_cell(None, None, 20) == "–"


def test_the_diagnostics_of_every_instance_are_written_and_undefined_k_hats_said(weights, capsys):
    table, text = weights.with_name("d.parquet"), weights.with_name("d.csv")
    run("--weights", weights, "--diagnostics", table)
    run("--weights", weights, "--diagnostics", text)
    (batch,) = read_batches(table, IMPORTANCE_DIAGNOSTICS, ["instance_id", "ess"])
    assert batch.column("instance_id").to_pylist() == [3, 10, 17]
    with open(text, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["ess"]) for row in rows] == pytest.approx(batch.column("ess").to_pylist())
    with pytest.raises(InputError, match=r"diagnostics d\.txt: expected a name that ends"):
        run("--weights", weights, "--diagnostics", "d.txt")
    few = {name: column[MINIMAL["sample_id"] < 2] for name, column in MINIMAL.items()}
    pq.write_table(pa.table(few), weights)
    run("--weights", weights)
    said = capsys.readouterr().out
    assert "– (3 undefined)" in said.splitlines()[1]
    assert "k̂ is undefined for 3 of 3 instances (3, 10, 17; short tail 3)" in said
    assert "0/3" not in said


def test_csv_other_widths_and_single_precision_are_read_as_parquet_is(weights, capsys):
    text = weights.with_suffix(".csv")
    columns = {**MINIMAL, "log_p": MINIMAL["log_p"].copy(), "comment": np.full(3 * K, "a, b")}
    columns["log_p"][4] = -np.inf
    pyarrow.csv.write_csv(pa.table(columns), text)
    pq.write_table(pa.table(columns), weights)
    run("--weights", weights)
    expected = capsys.readouterr().out
    run("--weights", text)
    assert capsys.readouterr().out == expected
    kinds = {"instance_id": np.int16, "log_p": np.float32}
    narrow = rewritten(MINIMAL, **{name: MINIMAL[name].astype(k) for name, k in kinds.items()})
    pq.write_table(narrow, weights)
    reader = WeightReader([weights])
    assert reader.n_samples.tolist() == [[K, K, K]]
    assert reader.has_grid is False


def test_unknown_words_and_beams_are_used_when_given(tmp_path, capsys):
    (path,) = write_weights(tmp_path, ALL, 1.0)
    beams = write_beams(tmp_path / "beams.parquet", P, (2,))
    output = tmp_path / "estimates.parquet"
    flags = "--beams", beams, "--unknown-types", 7, "--output", output, "--t-definition", "letters"
    run("--weights", path, *flags)
    said = capsys.readouterr().out
    assert "a strict upper bound" in said
    assert "T = 9 (letters)" in said
    assert "Unknown-penalized perplexity" in said
    (batch,) = read_batches(output, ESTIMATES, ["unknown_types", "method"])
    assert set(batch.column("unknown_types").to_pylist()) == {7}
    assert "beam_plus_tail" in batch.column("method").to_pylist()
    tables = [pq.read_table(one) for one in (path, beams)]
    for one, table in zip((path, beams), tables, strict=True):
        pq.write_table(table, one)  # less its footer, which a table in memory has not
    given = (path, beams), tables
    files, memory = (beyond_perplexity.estimate(one, beams=two).table for one, two in given)
    assert files.equals(memory)


HALVES, UNEVEN = np.repeat([0.5, 2.0], 45), MINIMAL["sample_id"].astype(float)
UNEVEN[64] += 0.5
# By what is said of it, the column that is wrong: its values, or those of some rows.
WRONG = {
    "row 4: log_p is nan, expected a number or -inf": ("log_p", {3: np.nan}),
    "row 4: log_p is inf, expected a number or -inf": ("log_p", {3: np.inf}),
    "row 4: log_p is 1e+308, expected a number or -inf, no larger": ("log_p", {3: 1e308}),
    "row 4: log_q is -1e+101, expected a finite number, no larg": ("log_q", {3: -1e101}),
    "row 63: log_q is -inf, expected a finite number": ("log_q", {62: -np.inf}),
    "row 63: log_q is nan, expected a finite number": ("log_q", {62: np.nan}),
    "row 6: n_tokens is 9, expected 2 as in the earlier rows of": ("n_tokens", {5: 9}),
    "row 6: n_tokens is 0, expected at least 1": ("n_tokens", {5: 0}),
    "row 9: instance 3, sample 2 is there already": ("sample_id", {8: 2}),
    "row 71: column 'instance_id' is string and has the inval": ("instance_id", {70: "x y"}),
    "row 90: column 'log_q' is string and has the invalid value '', exp": ("log_q", {89: ""}),
    "the n_tokens of all instances sum to more than 9,223,3": ("n_tokens", np.full(90, 2**62)),
    "column 'log_q' is missing; files of log weights have": ("log_q", None),
    "row 1: log_p is empty": ("log_p", pa.array([None] + [0.0] * 89)),
    "column 'instance_id' is string": ("instance_id", np.full(90, "a")),
    "row 65: column 'sample_id' is double and has the invalid value": ("sample_id", UNEVEN),
    "row 1: n_unknown is -1, expected 0 or more": ("n_unknown", np.full(90, -1)),
    "row 1: n_unknown is 3, expected at most n_tokens": ("n_unknown", np.full(90, 3)),
    "row 46: temperature is 2.0, but 0.5 in the first row; give the sa": ("temperature", HALVES),
    "row 46: proposal is 'b', but 'a' in the first row": ("proposal", np.repeat(["a", "b"], 45)),
    "row 46: temperature is missing, but 0.5 in the f": ("temperature", np.repeat([0.5, NAN], 45)),
    "temperature: is -1.0, expected above 0": ("temperature", np.full(90, -1.0)),
    "temperature cannot be read": ("temperature", np.full(90, "warm")),
    "there are no rows": (None, None),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_row_is_named(weights, message):
    name, values = WRONG[message]
    columns = {**MINIMAL, name: values}
    if isinstance(values, dict):
        columns = changed(name, *next(iter(values.items())))
    elif name is None:
        columns = {name: column[:0] for name, column in MINIMAL.items()}
    pq.write_table(rewritten(columns), weights)
    with pytest.raises(InputError, match=re.escape(message)) as error:
        list(WeightReader([weights]))
    assert str(weights) in str(error.value)


def test_the_first_of_a_pair_of_rows_is_named_too_and_rows_count_from_the_start(weights):
    second = weights.with_name("v.parquet")
    pq.write_table(pa.table({name: column[40:41] for name, column in MINIMAL.items()}), second)
    with pytest.raises(InputError) as error:
        list(WeightReader([weights, second], block_rows=20))
    assert str(error.value).startswith(f"{second}: row 1: instance 10, sample 10 is there already")
    assert f"{weights}: row 41" in str(error.value)
    pq.write_table(rewritten({**MINIMAL, "temperature": np.full(90, np.nan)}), weights)
    assert WeightReader([weights]).temperatures == (None,)
    pq.write_table(pa.table(changed("log_p", 77, np.nan)), weights, row_group_size=10)
    check_refused("row 78: log_p", lambda: list(WeightReader([weights], block_rows=30)))


NAMES = "instance_id,sample_id,n_tokens,log_p,log_q"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("instance_id;sample_id\n1;2\n", "is missing"),
        (f"{NAMES},log_p\n1,0,3,-1,-2,-3\n", "has column 'log_p' more than once; leave one of"),
        ("", "not a readable"),
    ],
)
def test_a_wrong_line_of_a_csv_file_is_named(tmp_path, text, message):
    path = tmp_path / "w.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(message)) as error:
        list(WeightReader([path]))
    assert str(path) in str(error.value)


@pytest.mark.parametrize(("suffix", "line"), [(".csv", 2), (".csv.gz", 40), (".csv", 60_002)])
@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        (3, "x", "column 'log_p' has the invalid value 'x', expected a number"),
        (3, "-1.5.2", "column 'log_p' has the invalid value '-1.5.2', expected a number"),
        (4, " ", "column 'log_q' has the invalid value ' ', expected a number"),
        (4, "\udcff", "column 'log_q' has the invalid value '\N{REPLACEMENT CHARACTER}'"),
        (2, "3.0", "column 'n_tokens' has the invalid value '3.0', expected a whole number"),
        (1, "", "sample_id is empty"),
        (3, "nan", "log_p is nan"),
        (3, "-1,-2", "cannot be read (CSV parse error: Expected 5 columns, got 6"),
    ],
)
def test_line_and_column_of_a_wrong_value_are_named(tmp_path, suffix, line, column, value, said):
    # oracle: the place that was made wrong, some blocks into the file; empty lines count as lines
    lines = [NAMES, ""]
    lines += [f"1,{k},3,-100.25,-200.125" for k in range(60_100)]
    cells = ["1", "7", "3", "-1", "-2"]
    cells[column] = value
    lines[line] = ",".join(cells)
    path = tmp_path / f"w{suffix}"
    write = gzip.open if suffix.endswith("gz") else open
    with write(path, "wb") as file:
        file.write("\n".join(lines).encode("utf-8", "surrogateescape"))
    if line < 60_000:  # in the block that holds the names
        said = said.replace("cannot be read", "not a readable CSV file")
    said = re.escape(f"{path}: line {line + 1}: {said}")
    check_refused(said, lambda: list(WeightReader([path])))


def test_gzipped_csv_is_read_as_csv_is_and_other_names_are_refused(tmp_path):
    plain, packed = tmp_path / "w.csv", tmp_path / "W.CSV.GZ"
    text = "\n".join(csv_lines())
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    for one, other in zip(WeightReader([plain]), WeightReader([packed]), strict=True):
        assert one.instance_id == other.instance_id
        assert one.samples[0].log_weights.tolist() == other.samples[0].log_weights.tolist()
    packed.write_bytes(gzip.compress(text.encode())[:-20])
    check_refused(re.escape(f"{packed}: "), lambda: list(WeightReader([packed])))
    packed.write_text(text)
    check_refused("not a readable CSV file", WeightReader, [packed])
    for name in ("w.tsv", "w.txt", "w.gz", "w.csv.bz2", "w.parquet.gz", "w"):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(InputError) as error:
            WeightReader([path])
        wanted = "expected a name that ends in .csv, .csv.gz, .parquet"
        assert str(error.value) == f"{path}: {wanted}"


@pytest.mark.parametrize("separator", [";", "\t", "|", " "])
@pytest.mark.parametrize("begin", ["", "\ufeff"])
def test_another_separator_is_named(tmp_path, separator, begin):
    path = tmp_path / "w.csv"
    lines = [line.replace(",", separator).replace(".", ",") for line in csv_lines()]
    path.write_text(begin + "\n".join(lines), encoding="utf-8")
    with pytest.raises(InputError) as error:
        WeightReader([path])
    assert f"{path}: line 1: there is one column {lines[0]!r}" in str(error.value)
    assert "the separator must be a comma" in str(error.value)


def test_files_of_two_models_or_temperatures_and_contradictions_are_told(tmp_path):
    one = write_weights(tmp_path / "a", ALL, 1.0)
    two = write_weights(tmp_path / "b", sample_columns(P, 0.5, K), 0.5)
    assert WeightReader(one + two).temperatures == (0.5, 1.0)
    assert WeightReader(one, WeightLabels(model="other")).labels.model == "other"
    fewer = {name: column[:K] for name, column in sample_columns(P, 0.5, K).items()}
    part = write_weights(tmp_path / "c", fewer, 0.5)
    check_refused(r"instance 10 has no samples at temperature 0\.5", WeightReader, one + part)
    plain = tmp_path / "plain.parquet"
    pq.write_table(pa.table(MINIMAL), plain)
    check_refused("model is None, but 'tiny'", WeightReader, [*one, plain])
    every = WeightLabels("tiny", "table", None, "words", 50)
    check_refused("its footer names no temperature", WeightReader, [*one, plain], every)
    (path,) = write_weights(tmp_path, ALL, 1.0)
    table = pq.read_table(path).append_column("temperature", pa.array([2.0] * 3 * K))
    pq.write_table(table.replace_schema_metadata(pq.read_metadata(path).metadata), path)
    check_refused(r"'temperature' says 2\.0, but the footer 1\.0", WeightReader, [path])
    paths = write_weights(tmp_path, ALL, 0.5)
    check_refused(r"row 1: log_q_tau_0\.5 is .* expected log_q", lambda: list(WeightReader(paths)))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_say_what_a_file_is(tmp_path, suffix):
    """Oracle: the same samples with the same labels in footers."""
    paths, footers = [], []
    for tau in (0.5, 1.0):
        drawn = sample_columns(P, tau, K)
        footers += write_weights(tmp_path, drawn, tau)
        named = {"model": "tiny", "proposal": "table", "temperature": tau}
        columns = {name: drawn[name] for name in MINIMAL}
        columns |= {name: np.full(3 * K, value) for name, value in named.items()}
        paths.append(tmp_path / f"{tau}.{suffix}")
        write = pyarrow.csv.write_csv if suffix == "csv" else pq.write_table
        write(pa.table(columns), paths[-1])
    found, wanted = WeightReader(paths), WeightReader(footers)
    assert found.temperatures == wanted.temperatures == (0.5, 1.0)
    assert (found.labels.model, found.labels.proposal) == ("tiny", "table")
    for ours, theirs in zip(found, wanted, strict=True):
        for one, other in zip(ours.samples, theirs.samples, strict=True):
            np.testing.assert_array_equal(one.log_weights, other.log_weights)


def test_wrong_flags_are_refused(weights):
    with pytest.raises(InputError, match=r"expected a name that ends in \.csv or \.parquet"):
        run("--weights", weights, "--output", "table.txt")
    check_refused("unknown-types: is -1", run, "--weights", weights, "--unknown-types", -1)
    nowhere = weights.with_name("none.parquet")
    check_refused(r"none\.parquet: no such file", run, "--weights", nowhere)
