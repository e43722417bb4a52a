"""Input that nobody means: absurd sizes, values of other kinds, names that act on who reads them.

Oracles: the one line that says what is wrong; the files themselves.
"""

import json
from itertools import product

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.text import Text

from beyond_perplexity import arguments, errors, options
from beyond_perplexity.commands import provenance, run
from beyond_perplexity.commands.progress import main as progress
from beyond_perplexity.corpus.linked import _edge
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.figures import draw_figure, labels
from beyond_perplexity.importance.ways_to_draw import ReductionOptions
from beyond_perplexity.library.estimate import estimate
from beyond_perplexity.models.registry import choose_device
from beyond_perplexity.planning.configuration_file import read_configuration
from beyond_perplexity.schemas.perplexity import PERPLEXITY_DIFFERENCES
from beyond_perplexity.storage.inputs import unreadable
from beyond_perplexity.storage.outputs import atomic_path
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import RECORD_KEY, write_shard
from beyond_perplexity.storage.verification import verify_tree
from tests.unit import planned, synthetic_tables
from tests.unit.evaluator_oracles import check_refused

WEIGHTS = {"instance_id": [0, 0], "sample_id": [0, 1], "n_tokens": [2, 2]}
SCORES = {"log_p": [-1.0, -2.0], "log_q": [-1.0, -1.0]}


def refused(path, value):
    """Return what is said of the configuration of the tests with one key changed."""
    said = planned.refused(planned.load(planned.SMOKE, {path: value}))
    assert said.startswith(f"config: {path}")
    return said


@pytest.mark.parametrize("size", [10**9, 10**18])
def test_sizes_have_limits(size):
    limits = {"models.lstm.architecture.layers": 1_000, "models.kn-3.architecture.order": 100}
    limits |= {"models.lstm.architecture.hidden_size": 1_000_000}
    limits |= {"generation.maximum_length": 10_000_000}
    limits |= {"tendencies.sample_size.subsets": 1_000_000}
    for path, limit in limits.items():
        assert str(limit) in refused(path, size).replace(",", "")
    check_refused("expected from 1 to 100,000", parse_decoding, {"kind": "beam", "size": size})
    with pytest.raises(errors.InputError, match=r"subsets: is .* at most 1000000"):
        options.parse_options(ReductionOptions, {"subsets": 10**12}, "options")
    with pytest.raises(Exception, match="at most 100,000,000"):
        arguments.COUNT(str(size))
    check_refused("'meta' is not supported; use auto, cpu or cuda", choose_device, "meta")


def test_aliases_that_repeat_each_other_are_refused_at_once(tmp_path):
    """Nine levels of nine: 9^9 values, of which Snakemake would copy each."""
    lines = ["a0: &a0 {x: 1}"]
    held = [", ".join(f"k{k}: *a{level}" for k in range(9)) for level in range(9)]
    lines += [f"a{level}: &a{level} {{{keys}}}" for level, keys in enumerate(held, 1)]
    path = tmp_path / "config.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    for read in (read_configuration, lambda path: run.snakemake_command(["--configfile", path])):
        check_refused(r"more than 100,000 values; let aliases not repeat", read, str(path))
    path.write_text("a: &a [*a]", encoding="utf-8")
    check_refused("nested more than 100 deep", read_configuration, path)
    path.write_text("a: &a {x: 1}\nb: *a", encoding="utf-8")
    assert read_configuration(path)["b"] == {"x": 1}


SECRETS = ("me:s3cret@a.org/x", "a.org/x?x=1&access_token=s3cret", "a.org/x?X-Amz-Signature=s3cret")


def test_a_folder_is_no_option_or_home_and_no_secret_of_an_address_is_shown():
    for folder in ("~", "~/results", "-rf", "--all"):
        assert "begin it with ./" in refused("pathvars.results", folder)
    for url in (f"https://{secret}" for secret in SECRETS):
        source = {"format": "mediawiki", "paths": [{"url": url, "sha256": "0" * 64}]}
        said = refused("corpora.wikipedia.source", source)
        assert "url: has a password, a key or a token" in said
        assert "s3cret" not in said
        assert "s3cret" not in refused("corpora.wikipedia.source.paths", [url])
        assert "s3cret" not in str(unreadable(url, FileNotFoundError()))


def test_numbers_beyond_64_bits_and_impossible_perplexities_are_told(capsys):
    with pytest.raises(errors.InputError, match=r"weights: cannot be read .* too large"):
        estimate(pd.DataFrame({**WEIGHTS, **SCORES, "instance_id": [10**30, 0]}))
    estimate(pd.DataFrame({**WEIGHTS, **SCORES}))
    assert "below 1" not in capsys.readouterr().err
    found = estimate(pd.DataFrame({**WEIGHTS, **SCORES, "log_p": [2.0, 1.0]}))
    assert found.table["value"].min() < 1
    assert "estimates are below 1, which no probability of a text gives" in capsys.readouterr().err
    told = found.table[found.table["value"] < 1]["note"]
    assert told.str.startswith("below 1, which no probability").all()
    said = r"graph: holds \(<a whole number of .* bits>, 'Q1'\)"
    check_refused(said, _edge, "graph", (10**5000, "Q1"))
    assert _edge("graph", (7, "Q1")) == ("7", "Q1")


def test_progress_of_absurd_numbers(tmp_path, capsys):
    log = tmp_path / "log"
    stamp = "[Mon Nov 23 18:55:03 2026]"
    table = ["Job stats:", "job  count", f"count {'9' * 11}", f"draw {'9' * 5000}", ""]
    done = [stamp, "Finished jobid: 1 (Rule: count)", "[Mon Nov 23 19:55:03 2026]"]
    log.write_text("\n".join([*table, *done]), encoding="utf-8")
    (tmp_path / "benchmarks").mkdir()
    lines = "\n".join(f'{{"s": {number}}}' for number in ("1" + "0" * 400, "1e308", "2.5"))
    (tmp_path / "benchmarks" / "count.jsonl").write_text(lines, encoding="utf-8")
    progress(["--log", str(log), "--benchmarks", str(tmp_path / "benchmarks")])
    assert "1 of 99,999,999,999 jobs done" in capsys.readouterr().out


def test_a_full_disk_in_the_words_of_numpy_names_the_file(tmp_path):
    words = "72032 requested and 8160 written"
    with pytest.raises(OSError, match="No space left") as caught, atomic_path(tmp_path / "x.npy"):
        raise OSError(words)
    assert str(tmp_path / "x.npy") in errors.describe_os_error(caught.value)
    assert "No space left on device; make room" in errors.describe_os_error(OSError(words))


def write_differences(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = synthetic_tables.make_differences(["a", "b"])
    rows = pa.Table.from_pandas(frame, PERPLEXITY_DIFFERENCES, preserve_index=False)
    record = run_record("scripts/update_configuration_page.py", {"output": str(path)}, seed=1)
    write_shard(path, PERPLEXITY_DIFFERENCES, rows, record)


def test_a_footer_of_another_shape_is_a_mismatch(tmp_path):
    path = tmp_path / "00000.parquet"
    write_differences(path)
    table, footer = pq.read_table(path), json.loads(pq.read_metadata(path).metadata[RECORD_KEY])
    write_differences(tmp_path / "00001.parquet")
    assert not verify_tree(tmp_path).mismatches
    keys = ("columns", "rows", "content_hash", "inputs", "options", "output", "seed", "script")
    sound = [("options", None), ("inputs", {"x": 1})]  # none; one that is no file here
    for key, value in product(keys, (None, -7, "x", [], ["x"], {"x": 1})):
        record = {RECORD_KEY: json.dumps({**footer, key: value}).encode()}
        changed = {**(table.schema.metadata or {}), **record}
        pq.write_table(table.replace_schema_metadata(changed), path)
        found = verify_tree(tmp_path).mismatches
        assert bool(found) == ((key, value) not in sound), (key, value)
    path.unlink()
    for shape in ({"vocabulary": []}, {"vocabulary": "x"}, {"record": []}, []):
        (tmp_path / "model.json").write_text(json.dumps(shape), encoding="utf-8")
        assert bool(verify_tree(tmp_path).mismatches) == ("vocabulary" in shape)


def test_a_name_with_a_newline_forges_no_line_of_the_list(tmp_path, capsys):
    """Oracle: the form of sha256sum, which marks such a line and escapes the name."""
    write_differences(tmp_path / "a.parquet")
    (tmp_path / "a.parquet").rename(tmp_path / f"a\n{'0' * 64}  forged.parquet")
    provenance.main([str(tmp_path)])
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("\\")
    assert line.endswith(f"  a\\n{'0' * 64}  forged.parquet")


def test_no_escape_of_a_name_reaches_a_figure_that_a_user_saves():
    given = {"perplexity_differences": synthetic_tables.make_differences(["a\x1b[31m", "b"])}
    figure = draw_figure("tendencies/perplexity_differences", given, labels.Labels())
    texts = [text.get_text() for text in figure.findobj(Text)]
    assert any("a\N{REPLACEMENT CHARACTER}" in text for text in texts)
    assert not [text for text in texts if "\x1b" in text]
