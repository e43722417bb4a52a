"""Penn brackets: one tree, whole files, malformed input, the way into the tables.

Oracles: trees by hand; NLTK's parser; random trees written and read back; other formats of the same
text; TextBlob's `parse` of the same tokens. A real treebank is read where it is.
"""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tree import Tree

from beyond_perplexity.corpus import extraction_options, penn, readers, shallow_trees
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_corpora import put
from tests.unit.test_extract_corpus import run, run_options

DATA = Path(__file__).parents[2].parent / "shared" / "data"
TREEBANK, COREFERENCE = DATA / "treebank-gum", DATA / "coreference-gum"
GOOD = "(S (NP (DT the) (NN cat)) (VP (VBZ sits)))"


def read(path, *, skip=False, document="file"):
    problems = readers.Problems(skip)
    source = extraction_options.SourceOptions("penn", [str(path)], document=document)
    return list(penn.Reader(source, problems).read(path)), problems


def read_tree(line):
    """Read a tree of the table with NLTK; its leaves are the words as they are in the text."""
    return Tree.fromstring(line, read_leaf=penn.unescape)


def write_tree(tree):
    inside = (penn.escape(part) if isinstance(part, str) else write_tree(part) for part in tree)
    return f"({penn.escape(tree.label())} {' '.join(inside)})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text.format(GOOD), GOOD) for text in ("{}", "({})", "( {} )", "(ROOT {})")),
        (f"(TOP\n  (S1 {GOOD})\n)", GOOD),
        (
            "((S (NP-SBJ-1 (PRP It)) (VP (VBZ is) (ADJP-PRD=2 (JJ so)))))",
            "(S (NP (PRP It)) (VP (VBZ is) (ADJP (JJ so))))",
        ),
        (
            "(S (NP-SBJ (-NONE- *)) (VP (TO to) (SBAR (WHNP (-NONE- 0)) (S (NP (-NONE- *T*-1)))) "
            "(VB go)))",
            "(S (VP (TO to) (VB go)))",
        ),
        (
            "(NP (-LRB- -LRB-) (NN a-RRB-) (-RRB- -RCB-))",
            "(NP (-LRB- -LRB-) (NN a-RRB-) (-RRB- }))",
        ),
        ("(ROOT (UH Yes))", "(X (UH Yes))"),
        ("(NP (NN a\u00a0b))", "(NP (NN a_b))"),
        ("(S(NP(NN a))(VP(VB b)))", "(S (NP (NN a)) (VP (VB b)))"),
    ],
)
def test_a_tree_in_the_form_of_the_table(text, expected):
    assert (penn.parse_tree(text), penn.parse_tree(expected)) == (expected, expected)


@pytest.mark.parametrize(
    ("reason", "texts"),
    [
        ("unbalanced brackets", ["(S (NP (NN a))", "(S (NP (NN a))))", ")", ""]),
        ("several roots", ["(S (NN a)) (S (NN b))", "(ROOT (S (NN a)) (S (NN b)))"]),
        ("several roots", ["(S (NN a)) b"]),
        ("text outside the trees", ["word"]),
        ("tree without words", ["(S)", "()", "(S (NP) (NN a))", "(S (NP (-NONE- *)))"]),
        ("tree without words", ["(ROOT (-NONE- *))"]),
        ("word without a tag", ["(NP the cat)", "(NP (DT the) cat)", "(NP cat (DT the))"]),
        ("word without a tag", ["(ROOT cat)"]),
        ("bracket without a label", ["(S ((NN a)) (NN b))"]),
        (
            "tree too deep",
            ["(S " * (penn.MAXIMUM_DEPTH + 1) + "(NN a" + ")" * (penn.MAXIMUM_DEPTH + 2)],
        ),
    ],
)
def test_a_malformed_tree_says_why(reason, texts):
    for text in texts:
        with pytest.raises(penn.TreeError) as error:
            penn.parse_tree(text)
        assert error.value.reason == reason


def test_function_labels_go_and_a_plain_tree_is_what_nltk_reads():
    labels = ("NP-SBJ", "NP=2", "S-NOM-SBJ", "-LRB-", "PRP$", ":", "-")
    assert [*map(penn.category, labels)] == ["NP", "NP", "S", "-LRB-", "PRP$", ":", "-"]
    text = "(ROOT\n  (S\n    (NP (PRP We))\n    (VP (VBP are)\n      (ADJP (JJ here)))))"
    assert read_tree(penn.parse_tree(text)) == Tree.fromstring(text)[0]


def random_tree(draw, depth=0):
    if depth > 4 or draw.random() < 0.3:
        word = "".join(draw.choices("ab(-)[é'/", k=draw.randint(1, 4)))
        return Tree(draw.choice(["NN", "-LRB-", "PRP$", ","]), [word])
    children = [random_tree(draw, depth + 1) for _ in range(draw.randint(1, 4))]
    return Tree(draw.choice(["NP", "VP", "S"]), children)


@pytest.mark.parametrize("seed", range(30))
def test_writing_and_reading_gives_the_tree_back(seed):
    draw = random.Random(seed)
    tree = Tree("S", [random_tree(draw) for _ in range(draw.randint(1, 5))])
    line = write_tree(tree)
    assert "\n" not in line
    assert (read_tree(line), penn.leaves(line)) == (tree, tree.leaves())
    assert penn.parse_tree(line) == line
    several = line.replace(" (", "\n    (")
    assert penn.parse_tree(f"(ROOT\n  {several})") == line
    other = [f"w({n}" for n in range(len(tree.leaves()))]
    assert penn.leaves(penn.replace_leaves(line, other)) == other
    assert penn.replace_leaves(line, tree.leaves()) == line


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(alphabet="() ab-=\nN*\u00a0\x1c", max_size=40))
def test_any_text_is_a_tree_or_a_named_fault(text):
    try:
        line = penn.parse_tree(text)
    except penn.TreeError:
        return
    assert read_tree(line).leaves() == penn.leaves(line)
    assert all(word and not re.search(r"\s", word) for word in penn.leaves(line))


def test_a_file_or_every_tree_is_a_document(tmp_path):
    path = put(tmp_path / "d.mrg", f"\n({GOOD})\n\n\n( (S (NP\n (NN b))\n))\n")
    (found,), _ = read(path)
    assert (found.title, found.tokens) == ("d", ["the", "cat", "sits", "b"])
    assert found.trees == [(0, GOOD), (1, "(S (NP (NN b)))")]
    path = put(tmp_path / "d.mrg", f"{GOOD}\n(S (NN b))\n")
    found, _ = read(path, document="tree")
    assert [(d.title, d.tokens, d.trees, d.place) for d in found] == [
        ("d:1", ["the", "cat", "sits"], [(0, GOOD)], f"{path}: line 1"),
        ("d:2", ["b"], [(0, "(S (NN b))")], f"{path}: line 2"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{GOOD}\n\n(S (NP (NN a))\n", "line 3: unbalanced brackets (1 not closed by line 3)"),
        (f"{GOOD}\n(S (NN a)))\n", "line 2: unbalanced brackets"),
        (f"{GOOD}\n(S (NN a)) (S (NN b))\n", "line 2: several roots"),
        (f"{GOOD}\n(ROOT (S (NN a))\n (S (NN b)))\n", "line 2: several roots"),
        (f"{GOOD}\nsome words\n", "line 2: text outside the trees"),
        (f"{GOOD}\n\n(S (NP))\n", "line 3: tree without words"),
        (f"{GOOD}\n(NP the cat)\n", "line 2: word without a tag"),
        ("\n\n", "no trees"),
    ],
)
def test_a_malformed_file_names_file_and_line_or_is_counted(tmp_path, text, message):
    path = put(tmp_path / "d.mrg", text)
    check_refused(re.escape(f"{path}: {message}"), read, path)
    found, problems = read(path, skip=True)
    assert problems.skips.counts.total() == 1
    assert [document.trees for document in found] == [[(0, GOOD)]] * (GOOD in text)


def test_reading_goes_on_after_a_tree_without_end_which_takes_few_others(tmp_path, monkeypatch):
    trees = [f"(S\n  (NP (NN w{n})))" for n in range(20)]
    trees[5] = "(S\n  (NP (NN lost))"
    found, problems = read(put(tmp_path / "d.mrg", "\n".join(trees)), skip=True)
    assert found[0].tokens == [f"w{n}" for n in range(20) if n != 5]
    first = f"{tmp_path / 'd.mrg'}: line 11"
    assert problems.skips.to_json() == {"unbalanced brackets": {"count": 1, "first": [first]}}
    monkeypatch.setattr("beyond_perplexity.corpus.penn.MAXIMUM_CHARACTERS", 100)
    path = put(tmp_path / "d.mrg", "(S (NN lost)\n" + f"{GOOD}\n" * 50)
    check_refused("line 1: unbalanced brackets", read, path)
    found, problems = read(path, skip=True)
    assert len(found[0].trees) == 50
    assert problems.skips.counts.total() == 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(position=st.integers(0, 400), character=st.sampled_from("() \nx-"), remove=st.booleans())
def test_a_damaged_file_loses_few_trees(tmp_path_factory, position, character, remove):
    text = "\n".join(f"(S\n  (NP (DT the) (NN w{n})))" for n in range(15)) + "\n"
    position %= len(text)
    damaged = text[:position] + character * (not remove) + text[position + 1 :]
    path = put(tmp_path_factory.mktemp("damaged") / "d.mrg", damaged)
    found, _ = read(path, skip=True)
    assert len(found[0].trees) >= 13
    assert found[0].tokens == [word for _, tree in found[0].trees for word in penn.leaves(tree)]


def test_a_treebank_becomes_documents_and_trees_or_trees_as_documents(tmp_path):
    text = "(ROOT (S (NP-SBJ (NNP Zoë)) (VP (VBZ Runs))))\n(NP (-LRB- -LRB-))"
    first, second = put(tmp_path / "a.mrg", text), put(tmp_path / "b.mrg", GOOD)
    paths = {"train": [str(first)], "test": [str(second)]}
    found = run(tmp_path / "out", paths, "penn", workers=2)
    expected = {("train", "a", "zoe runs ("), ("test", "b", "the cat sits")}
    assert {(d["split"], d["title"], d["text"]) for d in found["documents"]} == expected
    titles = {document["doc_id"]: document["title"] for document in found["documents"]}
    trees = [(titles[row["doc_id"]], row["sentence"], row["tree"]) for row in found["trees"]]
    runs = ("a", 0, "(S (NP (NNP zoe)) (VP (VBZ runs)))")
    assert sorted(trees) == [runs, ("a", 1, "(NP (-LRB- -LRB-))"), ("b", 0, GOOD)]
    assert found["report"]["trees"] == {"kind": "given", "written": 3}
    assert found["report"]["tokens"] == 6
    steps = {"lower_case": False, "remove_accents": False, "tokenizer": "none"}
    kept = run(tmp_path / "kept", paths, "penn", preprocessing=steps)
    assert {d["text"] for d in kept["documents"]} == {"Zoë Runs (", "the cat sits"}
    path = put(tmp_path / "a.mrg", "".join(f"(S (NN w{n}) (NN x))\n" for n in range(200)))
    options = {"source": {"format": "penn", "paths": [str(path)], "document": "tree"}}
    found = run_options(tmp_path / "out", options)
    assert {document["split"] for document in found["documents"]} == {"train", "valid", "test"}
    words = {d["doc_id"]: d["text"].split(" ") for d in found["documents"]}
    assert len(words) == 200
    assert all(penn.leaves(row["tree"]) == words[row["doc_id"]] for row in found["trees"])


@pytest.mark.skipif(
    not TREEBANK.is_dir(), reason="needs the treebank that lies beside the checkout"
)
def test_a_real_treebank_is_read_whole():
    files = sorted(TREEBANK.glob("*.ptb"))
    assert len(files) == 96
    n_trees = 0
    for path in files:
        (found,), problems = read(path)
        assert not problems.skips.counts
        expected = [Tree.fromstring(s)[0] for s in re.split(r"\n\s*\n", path.read_text().strip())]
        for tree in expected:
            for part in tree.subtrees():
                part.set_label(re.match(r"-.*|[^-=]+", part.label())[0])
        expected = [t if isinstance(t[0], Tree) else Tree("X", [t]) for t in expected]
        brackets = {"-LRB-": "(", "-RRB-": ")"}
        for tree in expected:
            for place in tree.treepositions("leaves"):
                for code, bracket in brackets.items():
                    tree[place] = tree[place].replace(code, bracket)
        assert [read_tree(tree) for _, tree in found.trees] == expected
        n_trees += len(expected)
    assert n_trees == 4145


@pytest.mark.skipif(not COREFERENCE.is_dir(), reason="needs the data that lies beside the checkout")
def test_trees_and_coreference_of_the_same_documents_have_the_same_words():
    for path in sorted(TREEBANK.glob("*.ptb")):
        (found,), _ = read(path)
        lines = (COREFERENCE / f"{path.stem}.conll").read_text().splitlines()
        words = [line.split("\t")[1] for line in lines if "\t" in line]
        # one word of the coreference data is empty: it is '|' in the treebank
        assert [w for w in found.tokens if w != "|"] == [w for w in words if w not in ("", "|")]
        assert len(found.tokens) == len(words)


LONG = "sentence longer than trees.maximum_tokens"
ESCAPED = "sentence with '-LRB-'"
SENTENCE = "the big cat sits on a mat ( red ) ."
WORDS = "the a big cat dogs of on with sits was eating quickly very and , to he 3 it 's"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("a b . c", ["a b .", "c"]), ("a ? ! b .", ["a ? !", "b ."])),
        *((". . a", [". .", "a"]), ("a", ["a"]), ("", []), ("e.g. a ... b", ["e.g. a ... b"])),
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
    assert [" ".join(sentence) for sentence in shallow_trees.sentences(text.split())] == expected


def test_the_phrases_of_a_sentence_and_sentences_without_a_tree():
    assert shallow_trees.parse_sentence(SENTENCE.split()) == (
        "(S (NP (DT the) (JJ big) (NN cat)) (VP (VBZ sits)) (PP (IN on) (NP (DT a) (NN mat))) "
        "(-LRB- -LRB-) (ADJP (JJ red)) (-RRB- -RRB-) (. .))"
    )
    text = "a b . c d e . a -LRB- . f ."
    trees, left_out = shallow_trees.parse_document(text.split(), 3)
    assert [(number, penn.leaves(tree)) for number, tree in trees] == [(0, [*"ab."]), (3, [*"f."])]
    assert left_out == {LONG: 1, ESCAPED: 1}


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

    tokens = random.Random(seed).choices(WORDS.split(), k=12)
    tagged = [mark.split("/") for mark in parse(" ".join(tokens), tokenize=False).split(" ")]
    tree = read_tree(shallow_trees.parse_sentence(tokens))
    assert (tree.leaves(), [tag for _, tag in tree.pos()]) == (tokens, [row[1] for row in tagged])
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
    trees, left_out = shallow_trees.parse_document(tokens, 100)
    assert [word for _, tree in trees for word in penn.leaves(tree)] == tokens
    assert not any(left_out.values())
    assert all(penn.parse_tree(tree) == tree for _, tree in trees)


def test_a_corpus_of_text_gets_trees_when_asked_whatever_the_workers(tmp_path):
    path = put(tmp_path / "c.txt", "The cat sat. It (the cat) slept!\nA very long one here.\n")
    plain = run(tmp_path / "plain", [str(path)], "text")
    assert (plain["trees"], plain["report"]["trees"]) == ([], {"kind": "none", "written": 0})
    options = {"kind": "shallow", "maximum_tokens": 7}
    found = run(tmp_path / "trees", [str(path)], "text", trees=options)
    assert found["documents"] == plain["documents"]
    texts = {document["doc_id"]: document["text"] for document in found["documents"]}
    by_document: dict[int, list[str]] = {}
    for row in found["trees"]:
        by_document.setdefault(row["doc_id"], []).extend(penn.leaves(row["tree"]))
    assert {n: " ".join(words) for n, words in by_document.items()} == texts
    assert found["report"]["trees"] == {"kind": "automatic: textblob", "written": 3}
    assert found["report"]["skips"] == {}
    options["maximum_tokens"] = 6
    report = run(tmp_path / "short", [str(path)], "text", trees=options)["report"]
    assert report["skips"][LONG] == {"count": 1, "first": [f"{path}: line 1"]}
    assert report["trees"]["written"] == 2
    path = put(tmp_path / "c.txt", "".join(f"The cat number {n} sat here.\n" for n in range(40)))
    options = {"kind": "shallow"}
    one = run(tmp_path / "one", [str(path)], "text", trees=options)
    assert one == run(tmp_path / "two", [str(path)], "text", trees=options, workers=2)
