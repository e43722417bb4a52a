"""Signatures: one line that says how a result was made, and what may be compared.

Oracles: the options that are given by hand, the tables of docs/which-number.md, and equality.
"""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import beyond_perplexity
from beyond_perplexity import __version__
from beyond_perplexity.commands import perplexity as perplexity_command
from beyond_perplexity.commands.library_functions import run_function
from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.relations import readers
from beyond_perplexity.schemas import perplexity, tendencies
from beyond_perplexity.signature import PARTS, parts_of, refuse_mixed, sign
from beyond_perplexity.storage.fingerprint import ROOT
from beyond_perplexity.storage.shards import read_record, write_shard
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary
from tests.unit.evaluator_oracles import run_script
from tests.unit.latent_tables import model, sample_columns, write_beams, write_weights
from tests.unit.small_corpora import write_documents
from tests.unit.test_library import ARPA
from tests.unit.test_relations import tendency
from tests.unit.text_pairs import named_parts

V = f"v{__version__}"
TEXTS = ["a b", "b b a", "a", "b a a b a b b"]
CPU = {"tokenized": True, "device": "cpu"}
WHOLE = {kind: dict.fromkeys(parts.split(), "x") for kind, parts in PARTS.items()}
EACH = [(kind, part) for kind, held in WHOLE.items() for part in held]


def keywords(parts):
    return {name.replace("-", "_"): value for name, value in parts.items()}


@pytest.mark.parametrize("kind", PARTS)
def test_a_signature_is_parsed_into_what_it_was_built_of(kind):
    line = sign(kind, **keywords(WHOLE[kind]))
    assert (parts_of(line), line.split("|")[-1]) == ({"kind": kind, **WHOLE[kind]}, V)
    assert sign(**keywords(parts_of(line))) == line
    first = next(iter(WHOLE[kind]))
    assert f"|{first}:a-b|" in sign(kind, **keywords(WHOLE[kind] | {first: "a |\n b"}))


def test_values_of_python_are_said_in_words():
    line = sign("contrast", levels=[0.1, 0.5], draws=(4,), base=None, text=True, units=[])
    assert line == f"contrast|text:yes|units:none|levels:0.1+0.5|draws:4|base:none|{V}"
    with pytest.raises(AssertionError):
        sign("contrast", level=1)


@pytest.mark.parametrize(("kind", "part"), EACH)
def test_two_that_differ_in_a_part_are_refused(kind, part):
    one, two = (sign(kind, **keywords(WHOLE[kind] | {part: value})) for value in "xy")
    with pytest.raises(InputError) as raised:
        refuse_mixed({"one.parquet": one, "none.csv": None, "two.parquet": two})
    said = str(raised.value)
    assert all(name in said for name in ("one.parquet", "two.parquet", one, two))
    assert f"they differ in {part} (y and x)" in said
    assert "make one again" in said
    assert "\n" not in said
    refuse_mixed({"one": one, "two": one.replace(V, "v9"), "three": None})


def test_kinds_are_not_mixed_and_the_page_explains_every_part():
    with pytest.raises(InputError, match="they differ in kind"):
        refuse_mixed({"a": sign("bpb"), "b": sign("contrast")})
    page = (ROOT / "docs/which-number.md").read_text()
    for kind, parts in PARTS.items():
        section = re.split(r"\n##+ ", page.split(f"\n### `{kind}`")[1])[0]
        rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \| (.+) \|$", section, re.M)
        assert [part for part, *_ in rows] == parts.split()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of a model with an open vocabulary and windows, and of a closed one."""
    home = tmp_path_factory.mktemp("models")
    shape = {"width": 8, "layers": 1, "heads": 1, "context_length": 8}
    rows = (
        ("open", "transformer", shape, BPEVocabulary.build([TEXTS], 262)),
        ("closed", "lstm", {"embedding_size": 4, "hidden_size": 4}, ClosedVocabulary(["a"], 1)),
    )
    torch.manual_seed(0)
    for name, family, architecture, vocabulary in rows:
        config = {"family": family, "architecture": architecture}
        save_model(home / name, registry.build(config, vocabulary.size), vocabulary, {})
    return home


def built_spelling_model(models, folder):
    texts, splits = [*TEXTS, "ab b", "b ab ba"], ["train"] * 4 + ["valid"] * 2
    documents = write_documents(folder / "documents.parquet", texts, splits)
    flags = {"documents": documents, "vocabulary": models / "closed/vocabulary.json"}
    flags |= {"output": folder / "words.spelling_model.json"}
    run_script("build_spelling_model", *(x for n, v in flags.items() for x in (f"--{n}", v)))
    return flags["output"]


def scored(models, name="open", **options):
    found = beyond_perplexity.perplexity(models / name, TEXTS * 8, **{**CPU, **options})
    return found, parts_of(found.summary["signature"])


DEFAULT = named_parts(
    "kind=bpb text=cleaned eos=yes bos=no spelling=yes special=characters unk=none context=model "
    "stride=half"
)


@pytest.mark.parametrize(
    ("options", "part", "value"),
    [
        *(({}, "text", "cleaned"), ({"no_count_eos": True}, "eos", "no")),
        *(({"count_bos": True}, "bos", "yes"), ({"context_length": 6}, "context", "6")),
        ({"stride": 1}, "stride", "1"),
    ],
)
def test_a_perplexity_says_its_options_beside_the_default(options, part, value, models, tmp_path):
    found, parts = scored(models, **options, per_document=tmp_path / "a.parquet")
    assert parts == DEFAULT | {part: value}
    assert found.text.splitlines()[-1] == found.summary["signature"]
    assert json.loads(found.to_json())["summary"]["signature"] == found.summary["signature"]
    assert scored(models, **options)[0].summary["signature"] == found.summary["signature"]
    record = read_record(tmp_path / "a.parquet")
    assert record["signature"] == {"cleaned": found.summary["signature"]}
    other, _ = scored(models, per_document=tmp_path / "b.parquet")
    given = {"no_count_eos": "no_count_eos" in options}
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    if options:
        for held in (files, {"a": found, "b": other}):
            with pytest.raises(InputError, match=f"they differ in {part} ") as raised:
                beyond_perplexity.compare_perplexity(held, **given)
            assert found.summary["signature"] in str(raised.value)
        pq.read_table(files[0]).to_pandas().to_csv(tmp_path / "a.csv", index=False)
        if "no_count_eos" not in options:
            files[0] = tmp_path / "a.csv"  # which has none
            assert len(beyond_perplexity.compare_perplexity(files, **given).table) == 3
    else:
        both = beyond_perplexity.compare_perplexity(files, **given).summary["signature"]
        assert parts_of(both) == DEFAULT | {"infinite": "refused"}


def test_a_closed_vocabulary_that_is_spelled_is_comparable_with_an_open_one(models, tmp_path):
    free, parts = scored(models, "closed")
    assert parts == DEFAULT | {"spelling": "no"}
    opened, _ = scored(models)
    with pytest.raises(InputError, match=r"they differ in spelling \(no and yes\)"):
        beyond_perplexity.compare_perplexity({"open": opened, "closed": free})
    known = beyond_perplexity.perplexity(models / "closed", ["a a", "a"], **CPU)
    assert parts_of(known.summary["signature"])["spelling"] == "yes"  # it accounts for all
    how = {"spelling_model": built_spelling_model(models, tmp_path)}
    spelled, parts = scored(models, "closed", **how, per_token=tmp_path / "tokens.parquet")
    assert parts == DEFAULT
    # the spelling is of documents: tokens are without it
    line = read_record(tmp_path / "tokens.parquet")["signature"]["cleaned"]
    assert line == free.summary["signature"]
    beyond_perplexity.compare_perplexity({"open": opened, "closed": spelled})


def test_the_workflow_stores_a_signature_for_each_text(models, tmp_path):
    documents = write_documents(tmp_path / "documents.parquet", TEXTS, ["test"] * 4)
    closed = {"spelling_model": built_spelling_model(models, tmp_path / "spelling")}
    for name, more in (("open", {}), ("closed", closed)):
        flags = {"model": models / name, "documents": documents, "device": "cpu", **more}
        flags |= {"output": tmp_path / f"{name}.json"}
        flags |= {"per_document": tmp_path / f"{name}.parquet"}
        given = (x for n, v in flags.items() for x in (f"--{n.replace('_', '-')}", v))
        run_script("measure_perplexity", *given)
        summary = json.loads((tmp_path / f"{name}.json").read_text())
        assert parts_of(summary["signature"]) == DEFAULT
        stored = read_record(tmp_path / f"{name}.parquet")["signature"]
        assert stored == {"cleaned": summary["signature"]} == summary["record"]["signature"]
    paths = [str(tmp_path / f"{name}.parquet") for name in ("open", "closed")]
    output = tmp_path / "differences.parquet"
    run_function("compare_perplexity", [*paths, "--output", str(output)])
    line = str(read_record(output)["signature"])
    assert parts_of(line) == DEFAULT | {"infinite": "refused"}
    assert readers.perplexity_sums(paths)[0].models == ["open", "closed"]
    table = pq.read_table(paths[1])
    other = {"cleaned": sign(**keywords(DEFAULT | {"spelling": False}))}
    write_shard(paths[1], perplexity.DOCUMENT_SCORES, table, {"signature": other})
    with pytest.raises(InputError, match=r"closed.* and .*open.* in spelling \(no and yes\)"):
        readers.perplexity_sums(paths)


def test_an_arpa_model_says_how_unk_is_read(tmp_path, capsys):
    path, text = tmp_path / "uniform.arpa", tmp_path / "text.txt"
    path.write_text(ARPA)
    text.write_text("a b <unk>\na x\n")
    parts = DEFAULT | {"spelling": "no", "unk": "unknown"}
    found = beyond_perplexity.perplexity(path, text, unk_as_unknown=True, device="cpu")
    assert parts_of(found.summary["signature"]) == parts
    flags = ["--arpa", str(path), "--text", str(text), "--json", "--unk-as", "a"]
    perplexity_command.main(flags)
    line = json.loads(capsys.readouterr().out)["signature"]
    assert line == f"bpb|text:cleaned|eos:yes|bos:no|spelling:no|unk:a|{V}"


def test_a_comparison_of_texts_says_its_options(tmp_path, capsys):
    human, samples = ([" ".join("ab" * (1 + k % s)) for k in range(30)] for s in (3, 4))
    quick = {"permutations": 19, "bootstrap": 5}
    found = beyond_perplexity.compare(human, samples, **quick)
    expected = named_parts(
        "kind=tendencies text=cleaned-en vocabulary=raw tokens=0-all stopwords=gensim "
        "symbols=yes groups=none permutations=19 bootstrap=5 confidence=0.95 zipf=10000 "
        "baseline=halves holm=1 embedding=none"
    )
    assert parts_of(found.summary["signature"]) == expected
    words = [tmp_path / "one.txt", tmp_path / "two.txt"]
    for path in words:
        path.write_text("a\n" + ("b\n" if path.stem == "two" else ""))
    held = {"groups": [k // 2 for k in range(30)], "vocabulary": words[0], "tokenized": True}
    how = {"minimum_tokens": 1, "maximum_tokens": 4}
    other = beyond_perplexity.compare(human, samples, **quick, **held, **how)
    parts = parts_of(other.summary["signature"])
    again = beyond_perplexity.compare(human, samples, **quick, vocabulary=words[1])
    assert re.fullmatch("[0-9a-f]{8}", parts["vocabulary"])
    assert parts_of(again.summary["signature"])["vocabulary"] not in ("raw", parts["vocabulary"])
    changed = {"text": "tokenized", "groups": "reference", "tokens": "1-4"}
    assert parts == expected | changed | {"vocabulary": parts["vocabulary"]}
    for name, texts in (("human", human), ("samples", samples)):
        (tmp_path / name).with_suffix(".txt").write_text("\n".join(texts))
    flags = ["--permutations", "19", "--bootstrap", "5", "--out", str(tmp_path / "out")]
    texts = [str(tmp_path / "human.txt"), "--samples", str(tmp_path / "samples.txt")]
    run_function("compare", ["--reference", *texts, *flags])
    assert capsys.readouterr().out.splitlines()[-1] == found.summary["signature"]
    assert found.summary["signature"] in (tmp_path / "out/compare.html").read_text()


def test_an_estimate_says_its_options_and_what_its_table_holds(tmp_path):
    p = model(3, 4)
    files = [write_weights(tmp_path, sample_columns(p, t, 30), t)[0] for t in (1.0, 2.0)]
    beams = write_beams(tmp_path / "beams.parquet", p, (1, 2))
    options = {"subsets": 10, "bootstrap": 0, "confidence": 0.9}
    given = {"beams": beams, "options": options, "no_two_sided": True}
    found = beyond_perplexity.estimate(files, **given, output=tmp_path / "e.parquet")
    line = found.summary["signature"]
    assert read_record(tmp_path / "e.parquet")["signature"] == line == found.text.splitlines()[-1]
    parts = parts_of(line)
    assert set(parts.pop("method").split("+")) == set(found.table["method"])
    assert parts == named_parts(
        "kind=estimate t-definition=words aggregation=corpus+instance temperature=1+2 "
        "n-samples=30+60 beam-size=1+2 two-sided=no subsets=10 bootstrap=0 confidence=0.9"
    )
    flags = {"weights": files[0], "seed": 1, "options": json.dumps(options)}
    flags |= {"estimates": tmp_path / "w.parquet", "curves": tmp_path / "c.parquet"}
    run_script("reduce_weights", *(x for n, v in flags.items() for x in (f"--{n}", v)))
    stored = [str(read_record(tmp_path / n)["signature"]) for n in ("w.parquet", "c.parquet")]
    assert (stored[0], parts_of(stored[0])["two-sided"]) == (stored[1], "yes")
    assert parts_of(stored[0])["temperature"] == "1"


def test_a_contrast_says_how_its_texts_were_distorted(models, tmp_path):
    documents = write_documents(tmp_path / "documents.parquet", TEXTS * 5, ["test"] * 20)
    ClosedVocabulary(["a", "b"], 1).save(tmp_path / "words.json")
    for name, substitution in (("one", 0.5), ("two", 0.5), ("three", 0.25)):
        shares = {"substitution": substitution, "transposition": 1 - substitution}
        model = models / ("open" if name == "two" else "closed")
        flags = {"model": model, "documents": documents, "seed": 3, "device": "cpu"}
        flags |= {"substitutes": tmp_path / "words.json", "distortion": json.dumps(shares)}
        flags |= {"versions": json.dumps({"0.0": [0, 1], "0.5": [0, 4], "0.9": [0, 4]})}
        flags |= {"output": tmp_path / name / "0.parquet"}
        given = [x for n, v in flags.items() for x in (f"--{n}", v)]
        run_script("score_contrast", *given, "--sentences", 0, 9, "--limit", 9, "--whole")
    shards = {name: tmp_path / name / "0.parquet" for name in ("one", "two", "three")}
    halves = "distortion:substitution-0.5+transposition-0.5|substitutes:vocabulary"
    line = f"contrast|text:cleaned|units:document|{halves}"
    assert read_record(shards["one"])["signature"] == f"{line}|{V}"
    measured, differences = tmp_path / "m.parquet", tmp_path / "d.parquet"
    given = "--model", "one", "--base-level", 0.5, "--output", measured
    run_script("measure_contrast", shards["one"], *given)
    line += "|levels:0.5+0.9|draws:4|base:0.5"
    assert read_record(measured)["signature"] == f"{line}|{V}"
    flags = ["--base-level", 0.5, "--output", differences]
    run_script("compare_contrast", shards["one"], shards["two"], *flags)
    assert read_record(differences)["signature"] == f"{line}|{V}"
    mixed = [str(shards[name]) for name in ("one", "three")]
    with pytest.raises(InputError, match="they differ in distortion"):
        run_script("compare_contrast", *mixed, *flags)
    with pytest.raises(InputError, match="they differ in distortion"):
        list(readers.contrast_sums(mixed, 0.9))
    found = beyond_perplexity.contrast([-1.0], [-2.0], output=tmp_path / "pairs.parquet")
    assert found.summary["signature"] == f"contrast|text:scores|distortion:pairs|{V}"
    assert read_record(tmp_path / "pairs.parquet")["signature"] == found.text.splitlines()[-1]
    sentences = beyond_perplexity.contrast(["a b"], ["b a"], model=models / "closed", **CPU)
    assert parts_of(sentences.summary["signature"])["text"] == "tokenized"


def test_tendencies_of_other_options_are_not_related(tmp_path):
    paths = []
    for name, draws in (("a", 19), ("b", 99)):
        table = pa.Table.from_pylist([tendency(f"{name}/beam")], tendencies.TENDENCY_MEASURES)
        paths.append(str(tmp_path / f"{name}.parquet"))
        line = sign("tendencies", permutations=draws)
        write_shard(paths[-1], tendencies.TENDENCY_MEASURES, table, {"signature": line})
    with pytest.raises(InputError, match=r"in permutations \(99 and 19\)"):
        list(readers.tendency_rows(paths, 0.95))
    assert len(list(readers.tendency_rows(paths[:1], 0.95))) == 1
