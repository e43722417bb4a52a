"""Linked WikiText-2: documents of both variants, aliases, graph, pickles that must not run.

Oracles: documents and graphs by hand; pickles of the library and by hand; scans over all pairs.
"""

import collections
import json
import os
import pickle
import random
import re
from pathlib import Path

import pytest

from beyond_perplexity.corpus.extraction_options import ExtractionOptions
from beyond_perplexity.corpus.linked import RECENT_TOKENS, derive_kinds, load_pickle
from beyond_perplexity.errors import InputError
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.validation import validate
from tests.unit import small_corpora, test_configuration
from tests.unit.evaluator_oracles import check_refused
from tests.unit.test_extract_corpus import TABLES, run_options

ALIASES = {"Q1": ["Super Mario Land", "SML"], "Q2": {"Nintendo"}}
ALIASES |= {"Q3": ("Game Boy", "Game Boy", " "), "Q4": []}
GRAPH = {"Q1": [("P178", "Q2"), ["P400", "Q3"], ("P577", "T::1989")], "Q2": []}
GRAPH |= {"Q3": [("R:P400", "Q1")]}
ANNOTATIONS = [
    {"source": source, "id": entity, "relation": [relation], "parent_id": ["Q1"], "span": span}
    for source, entity, relation, span in (
        ("WIKI", "Q1", "@@NEW@@", [0, 3]),
        ("NEL", "Q2", "P178", [6, 7]),
        ("COREF", "Q1", "@@REFLEXIVE@@", [9, 10]),
    )
]
TEXT = "Super Mario Land is made by Nintendo . \n It is old ."
TOKENS = TEXT.split(" ")
DOCUMENT = {"title": "Super Mario Land", "tokens": TOKENS, "annotations": ANNOTATIONS}


def write(folder, *documents, aliases=ALIASES, graph=GRAPH):
    folder.mkdir(exist_ok=True)
    (folder / "d.jsonl").write_text("".join(json.dumps(d) + "\n" for d in documents))
    (folder / "alias.pkl").write_bytes(pickle.dumps(aliases))
    (folder / "knowledge_graph.pkl").write_bytes(pickle.dumps(graph))
    return {
        "format": "linked-wikitext",
        "paths": {"train": [str(folder / "d.jsonl")]},
        "aliases": str(folder / "alias.pkl"),
        "knowledge_graph": str(folder / "knowledge_graph.pkl"),
    }


@pytest.mark.parametrize("nested", [False, True])
def test_both_variants_become_the_same_tables(tmp_path, nested):
    tokens = [[], TOKENS[:9], TOKENS[9:], []] if nested else TOKENS
    source = write(tmp_path, {**DOCUMENT, "tokens": tokens})
    found = run_options(tmp_path / "out", {"source": source})
    rows = {name: [tuple(row.values()) for row in found[name]] for name in TABLES}
    text = "super mario land is made by nintendo . it is old ."
    assert list(found["documents"][0]) == ["doc_id", "split", "title", "text", "n_tokens"]
    assert rows["documents"] == [(0, "train", "Super Mario Land", text, 12)]
    assert list(found["mentions"][0]) == ["doc_id", "start", "end", "entity", "source"]
    expected = [(0, 0, 3, "Q1", "wiki"), (0, 6, 7, "Q2", "nel"), (0, 8, 9, "Q1", "coref")]
    assert rows["mentions"] == expected
    edges = [("Q1", "P178", "Q2"), ("Q1", "P400", "Q3"), ("Q1", "P577", "T::1989")]
    assert rows["knowledge_graph"] == [*edges, ("Q3", "R:P400", "Q1")]
    names = [("Q1", "Super Mario Land"), ("Q1", "SML"), ("Q2", "Nintendo"), ("Q3", "Game Boy")]
    assert rows["aliases"] == names
    report = found["report"]
    assert report["annotation"] == {"tokens of white space": 1}
    assert report["skips"]["blank alias"]["first"] == [f"{source['aliases']}: entity Q3"]
    assert report["mentions"]["wiki"] == {"found": 1, "kept": 1, "written": 1}
    relations = report["relations"]
    assert relations["agreement_on_new"] == 1
    same = {kind: row[kind] for kind, row in relations["annotated_by_derived"].items()}
    assert same == dict.fromkeys(("new", "related", "ongoing"), 1)


def test_one_alias_may_name_several_entities_and_other_workers_change_nothing(tmp_path):
    source = write(tmp_path, DOCUMENT, aliases={**ALIASES, "Q4": ["SML"]})
    rows = run_options(tmp_path / "out", {"source": source})["aliases"]
    assert [row["entity"] for row in rows if row["alias"] == "SML"] == ["Q1", "Q4"]
    documents = [{**DOCUMENT, "title": f"T{n}", "tokens": [*TOKENS, str(n)]} for n in range(30)]
    source = write(tmp_path, *documents)
    one = run_options(tmp_path / "one", {"source": source})
    two = run_options(tmp_path / "two", {"source": source}, workers=2)
    assert (one, len(one["documents"])) == (two, 30)
    source = write(tmp_path, DOCUMENT)
    del source["aliases"], source["knowledge_graph"]
    config = {"source": source, "preprocessing": {"lower_case": False}}
    found = run_options(tmp_path / "out", config)
    assert (found["aliases"], found["knowledge_graph"]) == ([], [])
    assert found["documents"][0]["text"].startswith("Super Mario")
    assert found["report"]["relations"]["annotated_by_derived"]["related"]["new"] == 1


UNUSABLE = "line 2: unusable annotation"


def annotated(**changes):
    return {**DOCUMENT, "annotations": [ANNOTATIONS[0], {**ANNOTATIONS[1], **changes}]}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "line 2: not JSON"),
        ("[" * 100_000, "line 2: not JSON"),
        ("[]", "line 2: unusable JSON line (not an object)"),
        ({"title": "x"}, "line 2: unusable JSON line (field 'tokens' is no list)"),
        ({"tokens": ["a", 1]}, "line 2: unusable JSON line (field 'tokens' holds"),
        ({"tokens": [["a"], "b"]}, "line 2: unusable JSON line (field 'tokens' holds"),
        ({"tokens": ["\ud800"]}, "line 2: unusable JSON line (a token holds NUL"),
        ({"tokens": ["a"], "title": 3}, "line 2: unusable JSON line (field 'title'"),
        ({"tokens": ["a"], "annotations": {"a": 1}}, "line 2: unusable JSON line (field 'annot"),
        (annotated(span=[6, 99]), f"{UNUSABLE} (the span of Q2 is [6, 99], outside"),
        *((annotated(span=span), UNUSABLE) for span in ([-1, 2], [3, 3], [3.0, 4], [True, 4], [3])),
        (annotated(id=None), f"{UNUSABLE} (field 'id'"),
        (annotated(source=""), f"{UNUSABLE} (field 'source'"),
        ({**DOCUMENT, "annotations": [3]}, f"{UNUSABLE} (an annotation is no object"),
        (annotated(span=[2, 5]), "line 2: crossing mentions"),
    ],
)
def test_malformed_lines_name_file_and_line_or_are_counted(tmp_path, document, message):
    source = write(tmp_path, {**DOCUMENT, "title": "First"})
    path = Path(source["paths"]["train"][0])
    text = document if isinstance(document, str) else json.dumps(document)
    path.write_text(path.read_text() + text + "\n")
    with pytest.raises(InputError, match=re.escape(f"{path}: {message}")):
        run_options(tmp_path / "out", {"source": source})
    assert list((tmp_path / "out").iterdir()) == []
    found = run_options(tmp_path / "out", {"source": {**source, "on_error": "skip"}})
    skips = dict(found["report"]["skips"])
    for other in ("duplicate document", "blank alias"):
        skips.pop(other, None)
    (reason,) = skips
    assert f"line 2: {reason}" in message or message.startswith(f"line 2: {reason}")
    assert len(found["mentions"]) == 3


def test_triples_of_unknown_entities_are_an_error_or_counted(tmp_path):
    graph = {**GRAPH, "Q2": [("P31", "Q999"), ("P571", "T::1889")], "Q888": [("P31", "Q1")]}
    source = write(tmp_path, DOCUMENT, graph=graph)
    with pytest.raises(InputError, match=r"entity Q2: triple of an unknown entity \(Q999 of"):
        run_options(tmp_path / "out", {"source": source})
    found = run_options(tmp_path / "out", {"source": {**source, "on_error": "skip"}})
    assert found["report"]["skips"]["triple of an unknown entity"]["count"] == 2
    assert len(found["knowledge_graph"]) == 5


@pytest.mark.parametrize(
    ("files", "unknown"),
    [
        (("aliases", "knowledge_graph"), {"Q5"}),
        (("aliases",), {"Q5"}),
        (("knowledge_graph",), {"Q4", "Q5"}),  # Q4 has no edge
        ((), set()),
    ],
)
def test_mentions_of_unknown_entities_are_kept_and_counted(tmp_path, files, unknown):
    # oracle: the entities, chosen so that each is known from one place: Q1 is a head, Q2 and Q3
    # are tails, Q4 has aliases (an empty list) alone, Q5 is nowhere, T::1989 names itself
    entities = ["Q1", "Q2", "Q3", "Q4", "Q5", "Q5", "T::1990"]
    annotations = [{"source": "WIKI", "id": e, "span": [n, n + 1]} for n, e in enumerate(entities)]
    source = write(tmp_path, {**DOCUMENT, "annotations": annotations}, graph={"Q1": GRAPH["Q1"]})
    for name in {"aliases", "knowledge_graph"} - set(files):
        del source[name]
    found = run_options(tmp_path / "out", {"source": source})
    assert [row["entity"] for row in found["mentions"]] == entities
    count = found["report"]["annotation"].get("mentions of unknown entities", 0)
    assert count == sum(entity in unknown for entity in entities)


@pytest.mark.parametrize(
    ("aliases", "graph", "message"),
    [
        ([], GRAPH, "alias.pkl: holds list"),
        ({3: ["x"]}, GRAPH, "alias.pkl: has the key 3"),
        ({"Q1": "x"}, GRAPH, "alias.pkl: entity Q1: expected a list"),
        ({"Q1": [3]}, GRAPH, "alias.pkl: entity Q1: expected a list"),
        (ALIASES, {"Q1": {"P1": "Q2"}}, "entity Q1: holds dict"),
        (ALIASES, {"Q1": [("P1", "Q2", "Q3")]}, "entity Q1: holds ('P1', 'Q2', 'Q3')"),
        (ALIASES, {"Q1": ["P1"]}, "entity Q1: holds 'P1'"),
        (ALIASES, {"Q1": [("P1", None)]}, "entity Q1: holds ('P1', None)"),
    ],
)
def test_a_pickle_of_another_form_is_an_error(tmp_path, aliases, graph, message):
    source = write(tmp_path, DOCUMENT, aliases=aliases, graph=graph)
    check_refused(re.escape(message), run_options, tmp_path / "out", {"source": source})


class Evil:
    def __reduce__(self):
        return os.system, ("touch evil",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_containers_of_strings_and_numbers_are_read(tmp_path, protocol):
    value = {"Q1": [("a", "é" * 300), ["b", 3]], "Q2": {"c"}}
    value["n"] = [1.5, True, None, frozenset("x"), 2**70]
    path = small_corpora.put(tmp_path / "x.pkl", pickle.dumps(value, protocol))
    assert load_pickle(path) == value


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Evil(), f"{os.system.__module__}.system"),
        (collections.defaultdict(list), "collections.defaultdict"),
        (collections.OrderedDict(a=1), "collections.OrderedDict"),
        (Path("x"), "pathlib"),
        (print, "builtins.print"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_other_classes_are_refused_by_name(tmp_path, value, name, protocol, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = small_corpora.put(tmp_path / "x.pkl", pickle.dumps({"Q1": [value]}, protocol))
    check_refused(re.escape(name.replace("builtins", "")) + ".*only dict", load_pickle, path)
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no pickle",
        b"\x80\x09N.",  # a protocol that does not exist
        pickle.dumps({"a": ["b"]})[:-3],
        pickle.dumps("a") + b"more",
        b"\x80\x04\x8d" + (1 << 62).to_bytes(8, "little") + b"x.",  # a string of 4 EiB
        b"\x80\x04\x95" + (1 << 62).to_bytes(8, "little") + b"N.",  # a frame of 4 EiB
        b"\x80\x04P1\n.",  # a persistent reference
        b"cbuiltins\nset\n(Nb.",
    ],
)
def test_a_broken_pickle_is_one_error(tmp_path, content):
    path = small_corpora.put(tmp_path / "x.pkl", content)
    check_refused(re.escape(f"{path}: "), load_pickle, path)


@pytest.mark.parametrize("seed", range(60))
def test_damaged_pickles_are_data_or_one_error(tmp_path, seed):
    draw = random.Random(seed)
    content = bytearray(pickle.dumps(GRAPH, draw.randrange(6)))
    for _ in range(3):
        content[draw.randrange(len(content))] = draw.randrange(256)
    path = small_corpora.put(tmp_path / "x.pkl", content)
    try:
        load_pickle(path)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017


def test_a_missing_pickle_is_named(tmp_path):
    check_refused(r"nowhere\.pkl", load_pickle, tmp_path / "nowhere.pkl")


@pytest.mark.parametrize("seed", range(20))
def test_kinds_agree_with_a_scan_over_all_pairs(seed):
    draw = random.Random(seed)
    edges = {(draw.choice("abcdef"), draw.choice("abcdef")) for _ in range(8)}
    heads = {t: frozenset(h for h, tail in edges if tail == t) for t in "abcdef"}
    mentions, at = [], 0
    for _ in range(40):
        start = at + draw.choice([0, 3, 12, RECENT_TOKENS, RECENT_TOKENS + 1])
        at = start + draw.randint(1, 3)
        mentions.append((start, at, draw.choice("abcdef")))
    kinds = derive_kinds(mentions, heads)
    for n, (kind, (start, _, entity)) in enumerate(zip(kinds, mentions, strict=True)):
        recent = [e for _, end, e in mentions[:n] if start - end <= RECENT_TOKENS]
        related = any((other, entity) in edges for other in recent)
        assert kind == ("ongoing" if entity in recent else "related" if related else "new")


ADDRESS = {"url": "https://x.org/alias.pkl", "sha256": "0" * 64}


def configured(source, **sections):
    config, split = test_configuration.load(), {"train": 1, "valid": 0, "test": 0}
    config["corpora"]["external"] = {"source": source, "split": split, **sections}
    return config


def test_files_beside_the_text_are_inputs_and_may_be_addresses():
    files = {"aliases": ADDRESS, "knowledge_graph": "k.pkl"}
    config = configured({"format": "linked-wikitext", "paths": ["d.jsonl"], **files})
    validate(config)
    run = Run(config)
    downloaded = f"results/downloads/{'0' * 64}/alias.pkl"
    assert run.corpora.source_files("external") == ["d.jsonl", downloaded, "k.pkl"]
    options = ExtractionOptions.from_config(json.loads(run.corpora.options("external")))
    assert options.source.aliases == downloaded
    assert not options.preprocessing.normalize_punctuation
    assert options.preprocessing.tokenizer == "none"
    assert options.preprocessing.lower_case
    assert run.corpora.code("external") == ["beyond_perplexity/corpus/linked.py"]
    assert run.corpora.code("wikipedia") == ["beyond_perplexity/corpus/mediawiki.py"]


@pytest.mark.parametrize(
    ("source", "sections", "message"),
    [
        ({"format": "text", "document": "tree"}, {}, r"corpora\.external\.source: document is for"),
        ({"format": "penn", "aliases": "a.pkl"}, {}, "aliases is for format linked-wikitext only"),
        ({"format": "penn", "word_column": 2}, {}, "word_column is for format conll only"),
        ({"format": "penn", "mentions": "all"}, {}, "mentions is for format conll and linked"),
        ({"format": "penn"}, {"trees": {"kind": "shallow"}}, r"external\.trees\.kind: is shallow"),
        ({"format": "conll"}, {"trees": {"kind": "deep"}}, "is 'deep', expected 'none'"),
        (
            {"format": "conll"},
            {"preprocessing": {"tokenizer": "moses"}},
            r"corpora\.external\.preprocessing\.tokenizer: a corpus of format conll keeps",
        ),
    ],
)
def test_what_does_not_go_together_is_an_error_before_the_first_job(source, sections, message):
    check_refused(message, validate, configured({"paths": ["x"], **source}, **sections))
