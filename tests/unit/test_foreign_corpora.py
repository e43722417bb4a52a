"""Annotated corpora of others, as they come: what their readers make of odd and of broken files.

Needs nothing but the checkout. Oracle: words, spans and lines counted by hand.
"""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beyond_perplexity.corpus.external import read_cleaned
from beyond_perplexity.corpus.penn import leaves
from beyond_perplexity.errors import InputError
from tests.unit.test_conll import narrow, read, spans
from tests.unit.test_linked import run_options


def row(number, form, misc="_"):
    return f"{number}\t{form}" + "\t_" * 7 + f"\t{misc}"


def conllu(*rows, head="# newdoc id = d"):
    return "\n".join([head, *rows, ""])


ONE = {(0, 2, "0")}
WHOLE = (row(1, "a", "Entity=(e1"), row(2, "b", "Entity=e1)"))

CONLLU = {
    "plain": (conllu(*WHOLE), "a b", ONE),
    "no newdoc": ("\n".join(WHOLE) + "\n", "a b", ONE),
    "no line feed at the end": (conllu(*WHOLE).rstrip("\n"), "a b", ONE),
    "carriage returns": (conllu(*WHOLE).replace("\n", "\r\n"), "a b", ONE),
    "mark of the byte order": ("\ufeff" + conllu(*WHOLE), "a b", ONE),
    "over two sentences": (conllu(WHOLE[0], "", row(1, "b", "Entity=e1)")), "a b", ONE),
    "begun at several words": (
        conllu(row("1-2", "ab", "Entity=(e1"), row(1, "a"), WHOLE[1]),
        "a b",
        ONE,
    ),
    "over an empty node": (conllu(WHOLE[0], row("1.1", "_", "Entity=(e2)"), WHOLE[1]), "a b", ONE),
    "begun before the first word": (
        conllu(row("0.1", "_", "Entity=(e1"), row(1, "a"), WHOLE[1]),
        "a b",
        ONE,
    ),
    "word of an underscore": (conllu(row(1, "_", "Entity=(e1)")), "_", {(0, 1, "0")}),
    "words of number signs": (
        conllu(row(1, "a"), row(2, "#"), row(3, "#b", "Entity=(e1)")),
        "a # #b",
        {(2, 3, "0")},
    ),
    "words of numbers": (
        conllu(row(1, "10", "Entity=(e1)"), row(2, "20"), head=""),
        "10 20",
        {(0, 1, "0")},
    ),
    "blanks in words": (
        conllu(row(1, "10\u00a0000"), row(2, "New York", "Entity=(e1)")),
        "10_000 New_York",
        {(1, 2, "0")},
    ),
    "other keys": (
        conllu(
            row(1, "a", "Bridge=e1<e2|Entity=(e2-person-1-1,2-new-coref-B_O|SpaceAfter=No"),
            row(2, "b", "Entity=e2)"),
            head="# global.Entity = eid-etype-head-minspan-infstat-link-identity",
        ),
        "a b",
        ONE,
    ),
    "kind before the entity": (
        conllu(
            row(1, "a", "Entity=(person-e2"),
            row(2, "b", "Entity=person-e2)"),
            head="# global.Entity = etype-eid",
        ),
        "a b",
        ONE,
    ),
    "end and begin in one": (
        conllu(WHOLE[0], row(2, "b", "Entity=e1)(e2"), row(3, "c", "Entity=e2)")),
        "a b c",
        {(0, 2, "0"), (1, 3, "1")},
    ),
    "pieces": (
        conllu(
            row(1, "a", "Entity=(e1[1/2]-x"),
            row(2, "b", "Entity=e1[1/2])"),
            row(3, "c", "Entity=(e1[2/2]-x)"),
        ),
        "a b c",
        ONE,
    ),
    "no mention": (conllu(row(1, "a")), "a", set()),
}


COLUMNS = {
    "one word": (narrow(("a", "(1)")), "a", {(0, 1, "0")}),
    "over two sentences": (narrow(("a", "(1"), None, ("b", "1)")), "a b", ONE),
    "one entity in itself": (
        narrow(("a", "(1(1"), ("b", "1)"), ("c", "1)")),
        "a b c",
        {(0, 3, "0"), (0, 2, "0")},
    ),
    "crossing": (
        narrow(("a", "(1"), ("b", "(2"), ("c", "1)"), ("d", "2)")),
        "a b c d",
        {(0, 3, "0"), (1, 4, "1")},
    ),
    "one kind, two names": (
        narrow(("a", "(abstract-1(person-2-X)"), ("b", "abstract-1)")),
        "a b",
        {(0, 2, "0"), (0, 1, "1")},
    ),
    "one span, two entities": (
        narrow(("a", "(1)(2)"), ("b", "(2)")),
        "a b",
        {(0, 1, "0"), (1, 2, "0")},
    ),
    "carriage returns": (narrow(("a", "(1"), ("b", "1)")).replace("\n", "\r\n"), "a b", ONE),
    "mark of the byte order": ("\ufeff" + narrow(("a", "(1"), ("b", "1)")), "a b", ONE),
    "blanks in words": (narrow(("a\u00a0b", "(1"), ("c", "1)")), "a_b c", ONE),
}


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        pytest.param(*case, id=f"{kind}: {name}")
        for kind, cases in (("CoNLL-U", CONLLU), ("columns", COLUMNS))
        for name, case in cases.items()
    ],
)
def test_coreference_as_it_comes(tmp_path, text, words, expected):
    path = tmp_path / "x.conll"
    path.write_bytes(text.encode())
    (found,), _ = read(path, mentions="all")
    assert found.tokens == words.split(" ")
    assert spans(found) == expected


NER = "EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n"
BLANKS = "1 a _ _ _ _ _ _ _ Entity=(e1)\n2 b _ _ _ _ _ _ _ _\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-DOCSTART- -X- -X- O\n\n" + NER, "line 1: line outside a document (no '#begin doc"),
        (NER.replace(" ", "\t"), "line 1: line outside a document"),
        (f"#begin document (d)\n{NER}#end document\n", "line 2: malformed coreference ('B-ORG'"),
        (f"# newdoc id = d\n{BLANKS}", "line 2: line outside a document (no '#begin document' "),
        (f"# text = a b\n{BLANKS}", "ten columns between tabs"),
        (narrow(("a", "(person)")), "line 2: malformed coreference"),
        (narrow(("a", "(e1-person-1-x)")), "line 2: malformed coreference"),
        (narrow(("a", "(\u00b2)")), "line 2: malformed coreference"),
        (narrow(("a", "(1)"), ("\u2028", "-")), "line 3: empty word"),
        (narrow(("a", "(1)"), ("b", "1)")), "line 3: mention without beginning"),
        (
            conllu(row(1, "a", "Entity=(e1"), "# newdoc id = e", row(1, "b", "Entity=e1)")),
            "line 2: mention without end",
        ),
        (conllu(row(1, "a", "Entity=()")), "line 2: malformed coreference"),
        (
            conllu(row(1, "a", "Entity=(e1-X_(y))"), head="# global.Entity = eid-identity"),
            "line 2: malformed",
        ),
        (narrow(("a", "(1)")).encode("utf-16"), "line 1: not UTF-8"),
    ],
)
def test_what_is_no_coreference_is_one_line(tmp_path, text, message):
    path = tmp_path / "x.conll"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: line ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_words_of_a_tree_in_columns_are_those_of_the_text(tmp_path):
    rows = [("-LRB-", "(S*", "-"), ("Ann", "(NP*)", "(1)"), ("-RRB-", "*)", "-")]
    lines = [
        f"d 0 {n} {word} NN {tree} - - - - * {mark}" for n, (word, tree, mark) in enumerate(rows)
    ]
    path = tmp_path / "x.v4_gold_conll"
    path.write_text("\n".join(["#begin document (d); part 000", *lines, "", "#end document", ""]))
    (found,), _ = read(path)
    ((_, tree),) = found.trees
    assert found.tokens == ["(", "Ann", ")"] == leaves(tree)


@pytest.mark.parametrize(
    ("paths", "documents", "expected"),
    [
        (["{0}"], 1, 2),
        (["{0}"], 200, 0),
        ({"train": ["{0}"]}, 1, 0),
        ({"train": ["{0}"], "test": ["{0}"]}, 1, 1),
    ],
)
def test_a_split_without_documents_is_said(tmp_path, capsys, paths, documents, expected):
    path = tmp_path / "x.txt"
    path.write_text("".join(f"a b {n}\n" for n in range(documents)))
    named = json.loads(json.dumps(paths).replace("{0}", str(path)))
    report = run_options(tmp_path / "out", {"source": {"format": "text", "paths": named}})["report"]
    empty = [split for split, numbers in report["splits"].items() if not numbers["documents"]]
    said = capsys.readouterr().err
    assert len(report["warnings"]) == expected
    for warning in report["warnings"]:
        split = re.match(r"the split '(\w+)' has no document: ", warning)
        assert split
        assert split[1] in empty
        assert warning in said


# ---- texts ----


@pytest.mark.parametrize(
    ("line", "field", "message"),
    [
        ('{"text": "a", "text": "b"}', None, "field 'text' is there twice"),
        ('{"t": "a", "text": "b", "t": "c"}', "t", "field 't' is there twice"),
        ('{"text": null}', None, "field 'text' is null"),
        ('{"text": 3}', None, "field 'text' is no string"),
        ('{"text": ["a"]}', None, "field 'text' is no string"),
        ('{"a": {"b": "x"}}', "a.b", "field 'a.b' is missing; there are 'a'"),
        ("{", None, "it begins an object: write each object on one line"),
        ("[", None, "it begins an array: write each text on a line"),
    ],
)
def test_a_line_without_one_text_is_told(tmp_path, line, field, message):
    path = tmp_path / "x.jsonl"
    good = json.dumps({field or "text": "good"})
    path.write_text(f"{good}\n{line}\n")
    with pytest.raises(InputError, match=re.escape(f"{path}: line 2: ")) as error:
        list(read_cleaned(path, None, field=field))
    assert message in str(error.value)


@pytest.mark.parametrize(
    "line", ['{"x": {"text": "b"}, "text": "a"}', '{"text": "a", "y": "text", "x": 1, "x": 2}']
)
def test_a_key_inside_or_another_key_twice_is_no_second_text(tmp_path, line):
    path = tmp_path / "x.jsonl"
    path.write_text(line)
    assert list(read_cleaned(path, None)) == [["a"]]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array(["a", "b", "a"], pa.large_string()),
        pa.array(["a", "b", "a"], pa.large_string()).dictionary_encode(),
        pa.array(["a", "b", "a"], pa.string_view()),
    ],
    ids=lambda column: str(column.type),
)
def test_strings_of_every_type_of_parquet(tmp_path, column):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"text": column}), path)
    assert list(read_cleaned(path, None)) == [["a", "b", "a"]]


@pytest.mark.parametrize("name", ["x.txt", "x.jsonl", "x"])
def test_parquet_under_another_name_is_told(tmp_path, name):
    path = tmp_path / name
    pq.write_table(pa.table({"text": ["a"]}), path)
    with pytest.raises(InputError, match=re.escape(f"{path}: is a Parquet file; give it a name")):
        list(read_cleaned(path, None))


@pytest.mark.parametrize(
    ("text", "warned"), [('{"text": "a"}\n', True), ("{a} b\n", False), ("{}\n", False)]
)
def test_json_under_the_name_of_a_text_is_warned_of(tmp_path, capsys, text, warned):
    path = tmp_path / "x.txt"
    path.write_text(text)
    assert list(read_cleaned(path, None)) == [[text.strip()]]
    assert ("first line is a JSON object" in capsys.readouterr().err) == warned
