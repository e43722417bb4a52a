"""Shallow trees: sentences, phrases, leaves that are the tokens, the option of a corpus.

Needs TextBlob and the dump excerpt that gensim's wheel ships. Oracles: TextBlob's own public
`parse` on the same tokens; trees written by hand; the tokens of the documents.
"""

from __future__ import annotations

import random

import pytest

from beyond_perplexity.corpus.penn import leaves, parse_tree
from beyond_perplexity.corpus.shallow_trees import parse_document, parse_sentence, sentences
from tests.unit.test_extract_corpus import run
from tests.unit.test_penn import read_tree

LONG = "sentence longer than trees.maximum_tokens"
ESCAPED = "sentence with '-LRB-'"
SENTENCE = "the big cat sits on a mat ( red ) ."
WORDS = "the a big cat dogs of on with sits was eating quickly very and , to he 3 it 's"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b . c", ["a b .", "c"]),
        ("a ? ! b .", ["a ? !", "b ."]),
        (". . a", [". .", "a"]),
        ("a", ["a"]),
        ("", []),
        ("e.g. a ... b", ["e.g. a ... b"]),
        ('" a . " b .', ['" a . "', "b ."]),
        ('" a . b . " c', ['" a .', 'b . "', "c"]),
        ('a . " b . " c', ["a .", '" b . "', "c"]),
        ('a . " b " , c .', ["a .", '" b " , c .']),
        ('" a " . " b . " c', ['" a " .', '" b . "', "c"]),
        ('5 " . " b . " c', ['5 " .', '" b . "', "c"]),  # " behind a number closes nothing
        ('( " a . " ) b . "', ['( " a . " )', 'b . "']),
        ('( a . ) b ? ] " , " c', ["( a . )", 'b ? ] "', ', " c']),
        ("a . ) ) . b", ["a . ) ) .", "b"]),
        ("a . ( b . ) c", ["a .", "( b . )", "c"]),
        ("he said ' a . ' b", ["he said ' a . '", "b"]),
        ("dogs ' cat . ' a ' b", ["dogs ' cat . '", "a ' b"]),  # a possessive: read as a quote
        ("cf . ' a ' b . '", ["cf .", "' a ' b . '"]),
        ("`` a . '' b . ” c . -RRB- d", ["`` a . ''", "b . ”", "c . -RRB-", "d"]),
    ],
)
def test_sentences_end_after_a_run_of_marks(text, expected):
    assert [" ".join(sentence) for sentence in sentences(text.split())] == expected


def test_the_phrases_of_a_sentence():
    assert parse_sentence(SENTENCE.split()) == (
        "(S (NP (DT the) (JJ big) (NN cat)) (VP (VBZ sits)) (PP (IN on) (NP (DT a) (NN mat))) "
        "(-LRB- -LRB-) (ADJP (JJ red)) (-RRB- -RRB-) (. .))"
    )


def bracketed(tagged):
    """List the phrases that TextBlob marks, from its B-, I- and O marks alone."""
    found = set()
    for column in (2, 3):
        start = 0
        for n in range(1, len(tagged) + 1):
            label = tagged[start][column].partition("-")[2]
            following = tagged[n] if n < len(tagged) else ["", "", "O", "O"]
            outside = following[3] == "O", tagged[n - 1][3] == "O"
            edge = following[3] == "B-PNP" or outside[0] != outside[1]  # cuts other phrases
            if edge or following[column] != f"I-{label}":
                if label:
                    found.add((start, n, "PP" if label == "PNP" else label))
                start = n
    inside = [span for span in found if span[2] == "PP"]
    # a preposition that begins a larger phrase is no phrase of its own
    lone = {a for a in inside for b in inside if b != a and b[0] <= a[0] and a[1] <= b[1]}
    return found - lone


@pytest.mark.parametrize("seed", range(10))
def test_the_phrases_are_those_that_textblob_marks(seed):
    from textblob.en import parse

    draw = random.Random(seed)
    tokens = draw.choices(WORDS.split(), k=12)
    tagged = [mark.split("/") for mark in parse(" ".join(tokens), tokenize=False).split(" ")]
    tree = read_tree(parse_sentence(tokens))
    assert tree.leaves() == tokens
    assert [tag for _, tag in tree.pos()] == [row[1] for row in tagged]
    spans, position = set(), {}
    for place in tree.treepositions("leaves"):
        position[place] = len(position)
    for place in tree.treepositions():
        part = tree[place]
        if place and not isinstance(part, str) and not isinstance(part[0], str):
            covered = [n for leaf, n in position.items() if leaf[: len(place)] == place]
            spans.add((covered[0], covered[-1] + 1, part.label()))
    assert spans == bracketed(tagged)


@pytest.mark.parametrize("seed", range(20))
def test_leaves_are_the_tokens_whatever_they_are(seed):
    draw = random.Random(seed)
    alphabet = "ab.!?()[]/-'é&;0_\u4e2d"
    tokens = ["".join(draw.choices(alphabet, k=draw.randint(1, 5))) for _ in range(40)]
    trees, left_out = parse_document(tokens, 100)
    assert [word for _, tree in trees for word in leaves(tree)] == tokens
    assert not any(left_out.values())
    assert all(parse_tree(tree) == tree for _, tree in trees)


def test_long_sentences_and_escapes_get_no_tree_and_are_counted():
    text = "a b . c d e . a -LRB- . f ."
    trees, left_out = parse_document(text.split(), 3)
    assert [(number, leaves(tree)) for number, tree in trees] == [
        (0, ["a", "b", "."]),
        (3, ["f", "."]),
    ]
    assert left_out == {LONG: 1, ESCAPED: 1}


def test_a_corpus_of_text_gets_trees_when_asked(tmp_path):
    path = tmp_path / "c.txt"
    path.write_text("The cat sat. It (the cat) slept!\nA very long one here.\n")
    plain = run(tmp_path / "plain", [str(path)], "text")
    assert plain["trees"] == []
    assert plain["report"]["trees"] == {"kind": "none", "written": 0}
    options = {"kind": "shallow", "maximum_tokens": 7}
    found = run(tmp_path / "trees", [str(path)], "text", trees=options)
    assert found["documents"] == plain["documents"]
    texts = {document["doc_id"]: document["text"] for document in found["documents"]}
    by_document: dict[int, list[str]] = {}
    for row in found["trees"]:
        by_document.setdefault(row["doc_id"], []).extend(leaves(row["tree"]))
    assert {n: " ".join(words) for n, words in by_document.items()} == texts
    assert found["report"]["trees"] == {"kind": "automatic: textblob", "written": 3}
    assert found["report"]["skips"] == {}
    options["maximum_tokens"] = 6
    report = run(tmp_path / "short", [str(path)], "text", trees=options)["report"]
    assert report["skips"][LONG] == {"count": 1, "first": [f"{path}: line 1"]}
    assert report["trees"]["written"] == 2


def test_trees_do_not_depend_on_the_workers(tmp_path):
    path = tmp_path / "c.txt"
    path.write_text("".join(f"The cat number {n} sat here.\n" for n in range(40)))
    options = {"kind": "shallow"}
    one = run(tmp_path / "one", [str(path)], "text", trees=options)
    assert one == run(tmp_path / "two", [str(path)], "text", trees=options, workers=2)
