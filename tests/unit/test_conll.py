"""Coreference columns: marks, merging, overlaps, files of three layouts, malformed input.

Needs nothing but the checkout; the tests at the end read real data where it lies beside it.
Oracles: columns written by hand; random mentions that are written as a column and read back, also
in the schemes of GUM and of CoNLL-U; sets merged by brute force; counts of the parentheses of the
real files by a few lines of their own; documents that lie there in several schemes.
Odd and broken files of others: words, spans and lines counted by hand.
"""

import itertools
import json
import random
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beyond_perplexity.corpus import conll, external, extraction_options, penn
from beyond_perplexity.corpus.coreference import merge_entities, parse_marks, renumber
from beyond_perplexity.corpus.readers import Problems, Span, outermost
from beyond_perplexity.errors import InputError
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_corpora import put
from tests.unit.test_extract_corpus import run

DATA = Path(__file__).parents[2].parent / "shared" / "data"
WIDE = "bc/x 0 {n} {word} NN {parse} - - - sp * {column}"
LITBANK = "1_x\t0\t{}\t{}" + "\t_" * 8 + "\t{}"


def read(path, *, skip=False, **options):
    problems = Problems(skip)
    source = extraction_options.SourceOptions("conll", [str(path)], **options)
    return list(conll.Reader(source, problems).read(path)), problems


def narrow(*rows, begin="(d); part 0"):
    """Write a document of three columns; None ends a sentence."""
    lines = [f"{n}\t{row[0]}\t{row[1]}" if row else "" for n, row in enumerate(rows)]
    return "\n".join([f"#begin document {begin}", *lines, "#end document", ""])


def spans(document):
    return {mention[:3] for mention in document.mentions}


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        *(("-", []), ("_", []), ("(8)", [("single", "8")]), ("(1", [("begin", "1")])),
        ("(23|5)", [("begin", "23"), ("end", "5")]),
        *(("(3(4)", [("begin", "3"), ("single", "4")]), ("1)2)", [("end", "1"), ("end", "2")])),
        ("(1|(12)|1)", [("begin", "1"), ("single", "12"), ("end", "1")]),
        ("(animal-1", [("begin", "1")]),
        ("(person-3-Ada_Lovelace(time-17)", [("begin", "3"), ("single", "17")]),
        ("place-5-Al%2DHaram%28x%29)time-6)", [("end", "5"), ("end", "6")]),
    ],
)
def test_marks_of_a_field(column, expected):
    assert parse_marks(column) == expected


NO_MARKS = ("23", "(a)", "(", ")", "()", "1))", "(1) (2)", "((1)", "(a-)", "(a-b)", "(a-1-)", "a-1")


def test_marks_are_numbers_in_brackets():
    for column in NO_MARKS:
        with pytest.raises(ValueError, match="is no list of"):
            parse_marks(column)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(alphabet="()|-_1a ", max_size=12))
def test_any_field_is_marks_or_an_error(column):
    try:
        marks = parse_marks(column)
    except ValueError:
        return
    # one entity a bracket; what follows the number of GUM's entity is its name
    assert len(marks) == len(re.findall(r"\d+", re.sub(r"(a-1+)-[^()|]+", r"\1", column)))


def random_spans(draw, n_tokens, count):
    """Draw different spans; those of one entity share no edge and do not cross."""
    found: list[Span] = []
    for _ in range(count):
        start = draw.randrange(n_tokens)
        end = min(n_tokens, start + draw.randint(1, 5))
        entity = str(draw.randrange(6))
        clear = all(
            b <= start or end <= a or a < start < end < b or start < a < b < end
            for a, b, other in found
            if other == entity
        )
        if clear and (start, end) not in {span[:2] for span in found}:
            found.append((start, end, entity))
    return found


def write_marks(n_tokens, spans, begin, end):
    """Write mentions [start, end) as marks of each token: the inverse of reading them."""
    fields: list[list[str]] = [[] for _ in range(n_tokens)]
    for start, stop, entity in ordered(spans):
        fields[start].append(f"{begin(entity)})" if stop == start + 1 else begin(entity))
    for start, stop, entity in sorted(ordered(spans), key=lambda span: -span[0]):
        if stop > start + 1:
            # before what begins here, so that a mention never seems to end where it begins
            fields[stop - 1].insert(0, end(entity))
    return fields


def ordered(spans):
    return sorted(spans, key=lambda span: (span[0], -span[1]))


def format_column(n_tokens, spans):
    fields = write_marks(n_tokens, spans, "({}".format, "{})".format)
    return ["|".join(marks) or "-" for marks in fields]


def words(column):
    return [(f"w{n}", field) for n, field in enumerate(column)]


@pytest.mark.parametrize("seed", range(20))
def test_merging_is_the_closure_of_sharing_a_span(seed):
    """Entities are numbered by their first mention."""
    draw = random.Random(seed)
    given = [(draw.randrange(8), 9 + draw.randrange(2), str(draw.randrange(9))) for _ in range(14)]
    groups = [{entity} for *_, entity in given]
    for (a, b, first), (c, d, second) in itertools.permutations(given, 2):
        if (a, b) == (c, d):
            together = [g for g in groups if first in g or second in g]
            groups = [g for g in groups if g not in together] + [set().union(*together)]
    merged = merge_entities(given)
    assert {span[:2] for span in merged} == {span[:2] for span in given}
    assert len({span[:2] for span in merged}) == len(merged)
    of_place = {span[:2]: span[2] for span in merged}
    for a, b, entity in given:
        assert of_place[a, b] in next(g for g in groups if entity in g)
    for (p, e), (q, f) in itertools.combinations(of_place.items(), 2):
        held = [next(g for g in groups if entity in g) for entity in (e, f)]
        assert (e == f) == (held[0] is held[1] or held[0] == held[1]), (p, q)
    found = renumber([(0, 1, "9"), (2, 3, "4"), (5, 6, "9")])
    assert found == [(0, 1, "0"), (2, 3, "1"), (5, 6, "0")]


@pytest.mark.parametrize("seed", range(20))
def test_outermost_mentions_are_those_inside_no_other(seed):
    draw = random.Random(seed)
    places = {(s, s + draw.randint(1, 4)) for s in (draw.randrange(30) for _ in range(20))}
    given_spans = ordered((s, e, "x") for s, e in places)
    counts: Counter[str] = Counter()
    kept = outermost(given_spans, str, "first", Problems(False), counts)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(kept))
    assert len(kept) + counts.total() == len(given_spans)
    # what is left out overlaps something that is kept and begins no later
    for start, end, _ in set(given_spans) - set(kept):
        assert any(a <= start < b and (a, b) != (start, end) for a, b, _ in kept)
    crossing = [(0, 3, "x"), (2, 5, "y")]
    with pytest.raises(InputError, match="2: crossing mentions"):
        outermost(crossing, str, "error", Problems(False), Counter())
    skips = Problems(True)
    assert outermost(crossing, str, "error", skips, Counter()) == crossing[:1]
    assert skips.skips.counts == {"crossing mentions": 1}


def test_the_wide_layout_with_parts_and_parses(tmp_path):
    rows = [("The", "(TOP(S(NP*", "(3"), ("cat", "*)", "3)"), ("(sat)", "(VP*)))", "-"), None]
    rows += [("It", "(TOP(NP*))", "(3)|(7)"), "end", ("Ann", "*", "(0)")]
    lines = ["#begin document (bc/x); part 000"]
    for n, row in enumerate(rows):
        if isinstance(row, tuple):
            lines.append(WIDE.format(n=n, word=row[0], parse=row[1], column=row[2]))
        else:
            lines += ["", "#end document", "#begin document (bc/x); part 001"] if row else [""]
    path = put(tmp_path / "x.v4_gold_conll", "\n".join([*lines, "", "#end document"]))
    (first, second), _ = read(path)
    assert (first.title, second.title) == ("bc/x", "bc/x")
    assert first.tokens == ["The", "cat", "(sat)", "It"]
    assert first.mentions == [(0, 2, "0", "gold"), (3, 4, "0", "gold")]
    sentence = "(S (NP (NN The) (NN cat)) (VP (NN -LRB-sat-RRB-)))"
    assert first.trees == [(0, sentence), (1, "(NP (NN It))")]
    assert (second.tokens, second.mentions, second.trees) == (["Ann"], [(0, 1, "0", "gold")], [])


def test_litbanks_layout_names_of_narrow_files_and_a_column_that_is_given(tmp_path):
    rows = [(0, "Lord", "(2"), (1, "Jim", "2)"), None, (0, "#", "_")]
    lines = [LITBANK.format(*row) if row else "" for row in rows]
    text = "\n".join(["#begin document (1_x); part 0", *lines, "#end document"])
    (found,), _ = read(put(tmp_path / "x.conll", text))
    assert (found.tokens, spans(found)) == (["Lord", "Jim", "#"], {(0, 2, "0")})
    unnamed = narrow(("a", "_"), begin="").replace("#begin", "# begin")
    both, _ = read(put(tmp_path / "GUM_x.conll", unnamed + narrow(("b", "_"), begin="y")))
    assert [document.title for document in both] == ["GUM_x", "y"]
    path = put(tmp_path / "x.conll", "#begin document (x)\nword\t1\tlemma\t(1)\n#end document\n")
    assert read(path, word_column=0)[0][0].tokens == ["word"]
    assert read(path, word_column=2)[0][0].tokens == ["lemma"]
    check_refused("line 2: too few columns", read, path, word_column=3)


def test_nested_mentions_and_shared_spans(tmp_path):
    rows = [("a", "(1|(2"), ("b", "2)|(3)"), ("c", "1)"), ("d", "(4)|(2)"), ("e", "(4)")]
    path = put(tmp_path / "x.conll", narrow(*rows))
    (found,), _ = read(path)
    assert spans(found) == {(0, 3, "0"), (3, 4, "1"), (4, 5, "1")}
    assert (found.counts["nested mentions"], found.counts["mentions that shared a span"]) == (2, 1)
    (found,), _ = read(path, mentions="all")
    expected = [(0, 3, "0"), (0, 2, "1"), (1, 2, "2"), (3, 4, "1"), (4, 5, "1")]
    assert found.mentions == [(*span, "gold") for span in expected]


@pytest.mark.parametrize("seed", range(30))
def test_damaged_files_give_spans_inside_the_text(tmp_path, seed):
    draw = random.Random(seed)
    text = narrow(*words(format_column(30, random_spans(draw, 30, 15))))
    characters = list(text)
    for _ in range(8):
        characters[draw.randrange(len(characters))] = draw.choice("()|\t\n #1-")
    path = put(tmp_path / "x.conll", "".join(characters))
    for document in read(path, skip=True)[0]:
        ends = [0]
        for start, end, entity, source in document.mentions:
            assert ends[-1] <= start < end <= len(document.tokens)
            assert entity.isdecimal()
            assert source == "gold"
            ends.append(end)
        numbers = [int(mention[2]) for mention in document.mentions]
        assert list(dict.fromkeys(numbers)) == list(range(len(set(numbers))))


def test_coreference_becomes_documents_and_mentions(tmp_path):
    rows = [("Ann", "(1)"), ("ran", "-"), (".", "-"), None, ("She", "(1)"), ("sat", "-")]
    paths = {"train": [str(put(tmp_path / "x", narrow(*rows)))]}
    found = run(tmp_path / "out", paths, "conll", trees={"kind": "shallow"})
    assert [d["text"] for d in found["documents"]] == ["ann ran . she sat"]
    mention = {"doc_id": 0, "entity": "0", "source": "gold"}
    assert found["mentions"] == [{**mention, "start": k, "end": k + 1} for k in (0, 3)]
    assert [row["sentence"] for row in found["trees"]] == [0, 1]
    report = found["report"]
    assert report["trees"] == {"kind": "automatic: textblob", "written": 2}
    assert report["mentions"]["gold"] == {"found": 2, "kept": 2, "written": 2}


def wide(*rows, name="d1"):
    """Write a document of twelve columns of such rows or whole lines; None ends a sentence."""
    lines = []
    for n, row in enumerate(rows):
        word, _, column = (row or "").partition(" ")
        whole = f"{name} 0 {n} {word} VB * - - - sp * {column}"
        lines.append(whole if column and " " not in column else row or "")
    return "\n".join([f"#begin document ({name}); part 000", *lines, "#end document", ""])


CUT = "d1 0 2 sits VBZ -"
LOST_COLUMN = "d1 0 2 sits VBZ * - - - sp -"
TWO_WORDS = "d1 0 2 sits down VBZ * - - - sp * -"


@pytest.mark.parametrize("word_column", [None, 3])
@pytest.mark.parametrize(
    ("row", "reason", "place"),
    [
        *((CUT, "too few columns", place) for place in range(4)),
        *((LOST_COLUMN, "too few columns", place) for place in range(3)),
        *((TWO_WORDS, "too many columns", place) for place in range(3)),
    ],
)
def test_a_damaged_row_of_conll_2012_is_of_no_other_layout(
    tmp_path, row, reason, place, word_column
):
    # oracle: the rows around the damaged one; in the last place it is a sentence of its own
    rows: list[str | None] = ["She (1)", "sat -", ". -"]
    rows[place:place] = [row] if place < 3 else [None, row]
    path = put(tmp_path / "x.conll", wide(*rows))
    with pytest.raises(InputError, match=rf"line {place + 2 + (place == 3)}: {reason} \(\d+ col"):
        read(path, word_column=word_column)
    (found,), problems = read(path, word_column=word_column, skip=True)
    assert found.tokens == ["She", "sat", "."]
    assert problems.skips.counts == {reason: 1}


@pytest.mark.parametrize("separator", [" ", "\t"])
@pytest.mark.parametrize("seed", range(20))
def test_rows_cut_anywhere_never_give_another_word(tmp_path, seed, separator):
    # oracle: the words that were written; each is different and no other column holds one
    draw = random.Random(seed)
    written = [f"w{n}" for n in range(30)]
    lines = wide(*(f"{word} -" for word in written)).split("\n")
    for n in draw.sample(range(1, 31), 10):
        lines[n] = " ".join(lines[n].split()[: draw.randint(1, 11)])
    lines[1:31] = (row.replace(" ", separator) for row in lines[1:31])
    (found,), problems = read(put(tmp_path / "x.conll", "\n".join(lines)), skip=True)
    assert set(found.tokens) <= set(written)
    assert found.tokens == sorted(found.tokens, key=written.index)
    assert len(found.tokens) == 30 - problems.skips.counts["too few columns"] >= 20


def test_the_layout_of_a_file_is_that_of_its_first_document(tmp_path):
    rows = map("y\t0\t0\ta\t-\t-\t{}".format, "--")
    tabs = "\n".join(["#begin document (y)", *rows, "#end document"])
    cases = [(wide("She (1)"), wide(CUT, CUT), "too few columns")]
    cases += [(narrow(("She", "(1)")), tabs, "too many columns")]
    for first, second, reason in cases:
        path = put(tmp_path / "x.conll", first + second)
        check_refused(f"line 5: {reason}", read, path)
        found, problems = read(path, skip=True)
        assert [document.tokens for document in found] == [["She"], []]
        assert problems.skips.counts == {reason: 2}


@pytest.mark.parametrize(
    "comment",
    [
        *("text = She looked at him and said no -", "text = She looked at him and said (no)"),
        *("1 2 3 4 5 6 7 8 9 10 -", "sent_id = x", ""),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_a_comment_is_no_row_however_long_it_is(tmp_path, comment, place):
    # oracle: the same file without the comment
    plain = narrow(("She", "(1)"), ("sat", "-"))
    rows = [LITBANK.format(0, "She", "(1)"), LITBANK.format(1, "sat", "")]
    litbank = "\n".join(["#begin document (1_x)", *rows, "#end document"])
    for text in (wide("She (1)", "sat -"), plain, plain.replace("\t", " "), litbank):
        ((expected,), _) = read(put(tmp_path / "x.conll", text))
        lines = text.split("\n")
        lines.insert(1 + place, f"# {comment}".strip())
        ((found,), problems) = read(put(tmp_path / "x.conll", "\n".join(lines)))
        assert (found.tokens, found.mentions) == (expected.tokens, expected.mentions)
        assert found.tokens == ["She", "sat"]
        assert not problems.skips.counts


@pytest.mark.parametrize("separator", [" ", "\t"])
def test_a_comment_may_hold_a_tab_and_a_name_begin_with_a_number_sign(tmp_path, separator):
    text = narrow(("She", "(1)"), ("sat", "-")).replace("1\tsat", "# text\tno\t-\n1\tsat")
    assert read(put(tmp_path / "x.conll", text))[0][0].tokens == ["She", "sat"]
    head, *rows, tail = wide("She (1)", "sat -", name="#x").rstrip().split("\n")
    lines = [head, *(row.replace(" ", separator) for row in rows), tail]
    (found,), _ = read(put(tmp_path / "x.conll", "\n".join(lines)))
    assert (found.tokens, spans(found)) == (["She", "sat"], {(0, 1, "0")})


CONLLU = [
    *("1\tShe\tshe\tPRON\tPRP\t_\t3\tnsubj\t_\t{}", "2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_"),
    *("2\tdid\tdo\tAUX\tVBD\t_\t3\taux\t_\t_", "3\tn't\tnot\tPART\tRB\t_\t0\troot\t_\t_"),
    *("3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_", "4\t1984\t1984\tNUM\tCD\t_\t3\tobl\t_\t_"),
]


def conllu(*rows):
    return "\n".join(["#begin document (u)", *rows, "#end document", ""])


def test_conllu_is_an_error_until_the_column_is_given(tmp_path):
    path = put(tmp_path / "x.conllu", conllu(*CONLLU))
    for skip in (False, True):
        check_refused(r"line 2: this is CoNLL-U .*word_column to .* 1, if", read, path, skip=skip)
    path.write_text(conllu(*CONLLU).format("(7)"))
    (found,), problems = read(path, word_column=1)
    assert (found.tokens, spans(found)) == (["She", "did", "n't", "1984"], {(0, 1, "0")})
    places = {"count": 2, "first": [f"{path}: line 3", f"{path}: line 6"]}
    assert problems.skips.to_json() == {"row of several words or of none": places}
    path.write_text(conllu(*CONLLU[:-1], CONLLU[-1].removesuffix("\t_")).format("_"))
    check_refused(r"line 7: too few columns \(9 .* at least 10", read, path, word_column=1)
    path.write_text(conllu(CONLLU[0], CONLLU[1][:-1] + "(3)").format("_"))
    check_refused(r"line 3: malformed coreference .*which is no word", read, path, word_column=1)


def test_names_of_columns_say_where_the_word_is(tmp_path):
    for names, column in (("ID LEMMA FORM COREF", 2), ("ID FORM", 1), ("a b", 1)):
        text = f"# global.columns = {names}\n" + narrow(("a", "-"), begin="x")
        path = put(tmp_path / "x.conllu", text)
        check_refused(rf"line 1: this is CoNLL-U .* {column}, if", read, path)
        assert read(path, word_column=1)[0][0].tokens == ["a"]


def test_ten_columns_of_conll_2012_are_no_conllu(tmp_path):
    # oracle: the same rows under a name that is no number
    path = tmp_path / "x.conll"
    row = "{}\t0\t{}\t{}\tNN\t*\t-\t-\t-\t{}"
    for name in ("u", "1023"):
        rows = [row.format(name, 0, "She", "(1)"), row.format(name, 1, "sat", "-")]
        path.write_text(conllu(*rows))
        (found,), _ = read(path)
        assert (found.tokens, spans(found)) == (["She", "sat"], {(0, 1, "0")})


def entity_attributes(n_tokens, spans, parts):
    """Write mentions as the attribute of CoNLL-U, closing with the entity alone."""

    def begin(entity):
        known = {"eid": f"e{entity}", "GRP": f"e{entity}", "etype": "place", "head": "1"}
        return "(" + "-".join(known[part] for part in parts.split("-"))

    return ["".join(marks) for marks in write_marks(n_tokens, spans, begin, "e{})".format)]


def conllu_document(attributes, name, parts):
    """Write a document of CoNLL-U, five words a sentence, some of them of several words."""
    lines = [f"# newdoc id = {name}", f"# global.Entity = {parts}"]
    for n, entity in enumerate(attributes):
        if n % 5 == 0:
            lines += ["" if n else "# newpar", f"# sent_id = {n}", f"# text = w{n} ..."]
        if n % 5 == 1:
            lines.append(f"{n % 5 + 1}-{n % 5 + 2}\tboth" + "\t_" * 8)
        misc = f"Discourse=x:1->2|Entity={entity}|SpaceAfter=No" if entity else "SpaceAfter=No"
        lines.append(f"{n % 5 + 1}\tw{n}\tl\tNOUN\tNN\t_\t0\troot\t_\t{misc}")
    return "\n".join([*lines, "", ""])


def columns_document(spans, name, draw):
    return narrow(*words(format_column(20, spans)), begin=name)


def gum_document(spans, name, draw):
    kinds = {str(n): draw.choice([f"time-{n}", f"place-{n}-X_%2D{n}"]) for n in range(6)}
    column = format_column(20, spans)
    named = [re.sub(r"\d+", lambda found: kinds[found[0]], field) for field in column]
    return narrow(*words(field.replace("|", "") for field in named), begin=name)


def documents_of(parts):
    return lambda spans, name, _: conllu_document(entity_attributes(20, spans, parts), name, parts)


CONLLU_PARTS = ("eid-etype-head", "GRP", "etype-GRP-head")
SCHEMES = {"columns": columns_document, "GUM": gum_document}
SCHEMES |= {parts: documents_of(parts) for parts in CONLLU_PARTS}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(20))
def test_mentions_are_written_and_read_back(tmp_path, seed, scheme):
    draw = random.Random(seed)
    written = [random_spans(draw, 20, 12) for _ in range(2)]
    texts = (SCHEMES[scheme](spans, f"d{n}", draw) for n, spans in enumerate(written))
    found, problems = read(put(tmp_path / "x.conllu", "".join(texts)), mentions="all")
    several = {"row of several words or of none"} if scheme in CONLLU_PARTS else set()
    assert set(problems.skips.counts) == several
    assert [document.title for document in found] == ["d0", "d1"]
    for document, spans in zip(found, written, strict=True):
        assert document.tokens == [f"w{n}" for n in range(20)]
        assert [mention[:3] for mention in document.mentions] == renumber(ordered(spans))


def row(number, form, misc="_"):
    return f"{number}\t{form}" + "\t_" * 7 + f"\t{misc}"


def odd_conllu(rows, head="# newdoc id = d"):
    """Write rows, number/form/entity between blanks; ``-`` ends a sentence, ``:`` is a slash."""
    lines = []
    for field in rows.split(" "):
        number, form, entity = (*field.split("/"), "", "")[:3]
        misc = f"Entity={entity.replace(':', '/')}" if entity else "_"
        lines.append("" if number == "-" else row(number, form, misc))
    return "\n".join([head, *lines, ""])


ONE_WORD = narrow(("a", "-"))
OPEN_END = ONE_WORD.replace("#end document", "")
CROSSING = narrow(("a", "(1"), ("b", "(2"), ("c", "1)"), ("d", "2)"))
MALFORMED = [
    (narrow(("a", "(1"), ("b", "-")), "line 2: mention without end ('(1' is never closed)"),
    (narrow(("a", "-"), ("b", "1)")), "line 3: mention without beginning"),
    (CROSSING, "line 3: crossing mentions"),
    (narrow(("a", "(x)")), "line 2: malformed coreference"),
    (narrow(("a", "-"), ("", "(1)")), "line 3: empty word"),
    (ONE_WORD.replace("0\ta\t-", "0\ta"), "line 2: too few columns"),
    (ONE_WORD + "1\tb\t-\n", "line 4: line outside a document"),
    (OPEN_END, "line 3: document without end"),
    (OPEN_END + narrow(("b", "-")), "line 4: document without end"),
]
MALFORMED_ROWS = [  # of CoNLL-U
    ("1\ta\t_", "too few columns (3 columns between tabs, expected 10)"),
    (row(1, "a", "_\t_"), "too many columns"),
    (row(1, ""), "empty word"),
    (row("x", "a"), "malformed number of a word"),
    (row(1, "a", "Entity=(e1"), "mention without end"),
    (row(1, "a", "Entity=e1)"), "mention without beginning"),
    (row(1, "a", "Entity=e1"), "malformed coreference"),
    (row(1, "a", "Entity=(-x)"), "malformed coreference"),
]
MALFORMED += [
    ("\n".join(["# newdoc id = d", line, *[row(2, "b")] * 3, ""]), f"line 2: {message}")
    for line, message in MALFORMED_ROWS
]


@pytest.mark.parametrize(("text", "message"), MALFORMED)
def test_malformed_input_names_file_and_line_or_is_counted(tmp_path, text, message):
    path = put(tmp_path / "x.conll", text)
    check_refused(re.escape(f"{path}: {message}"), read, path)
    _, problems = read(path, skip=True)
    reason = re.search(r"line \d+: ([a-z ]+)", message)
    assert reason
    assert problems.skips.counts == {reason[1].strip(): 1}


def test_a_corpus_without_mentions_or_trees_says_so(tmp_path, capsys):
    path = tmp_path / "x.conllu"
    for misc, expected in (("_", 1), ("Entity=(e1)", 0)):
        path.write_text("\n".join([row(1, "a", misc), row(2, "b"), ""]))
        report = run(tmp_path / misc, {"train": [str(path)]}, "conll")["report"]
        assert len(report["warnings"]) == expected
        said = capsys.readouterr().err
        assert said.count("0 mentions were found") == expected
        assert (str(path) in said) == bool(expected)
    paths = {"train": [str(put(tmp_path / "x.txt", "a b c d\n"))]}
    assert run(tmp_path / "plain", paths, "text")["report"]["warnings"] == []
    marked = {"train": [str(put(tmp_path / "m.txt", "a <unk> b <unk>\nc\nd <unk>\n"))]}
    (warning,) = run(tmp_path / "marked", marked, "text")["report"]["warnings"]
    said = "the tokenizer cuts <unk> into three tokens (occurrences: 3; texts: 2)"
    assert warning.startswith(said)
    kept = {"tokenizer": "none"}
    assert run(tmp_path / "kept", marked, "text", preprocessing=kept)["report"]["warnings"] == []
    trees = {"kind": "shallow", "maximum_tokens": 2}
    (warning,) = run(tmp_path / "trees", paths, "text", trees=trees)["report"]["warnings"]
    assert warning.startswith("0 trees were found")


@pytest.mark.parametrize(
    ("folder", "column", "documents"), [("coreference-litbank", 3, 80), ("coreference-gum", 1, 96)]
)
def test_real_coreference_has_as_many_mentions_as_brackets(folder, column, documents):
    if not (DATA / folder).is_dir():
        pytest.skip("needs the data that lies beside the checkout")
    files = sorted((DATA / folder).glob("*.conll"))
    assert len(files) == documents
    for path in files:
        (found,), _ = read(path, mentions="all", skip=True)
        rows = [line.split("\t") for line in path.read_text().splitlines() if "\t" in line]
        marks = [row[-1] for row in rows]
        assert [row[column] or "_" for row in rows] == found.tokens
        assert found.counts["gold found"] == sum(mark.count("(") for mark in marks)
        assert found.counts["gold found"] == sum(mark.count(")") for mark in marks)
        shared = found.counts["mentions that shared a span"]
        assert len(found.mentions) == found.counts["gold found"] - shared
        entities = {number for mark in marks for number in re.findall(r"\d+", mark)}
        merged = len(entities) - len({mention[2] for mention in found.mentions})
        assert 0 <= merged <= shared
        (outer,), _ = read(path, skip=True, crossing="first")
        left_out = outer.counts["nested mentions"] + outer.counts["crossing mentions"]
        assert left_out == len(found.mentions) - len(outer.mentions)


@pytest.mark.parametrize("name", ["GUM_bio_byron", "GUM_news_crane"])
def test_real_documents_are_the_same_in_every_scheme(name):
    # oracle: OntoGUM's own columns of the same release, and the brackets of GUM's
    folder = DATA / "coreference-gum-schemes"
    if not folder.is_dir():
        pytest.skip("needs the data that lies beside the checkout")
    (columns,), _ = read(DATA / "coreference-gum" / f"{name}.conll", mentions="all", skip=True)
    (conllu_found,), _ = read(folder / f"{name}.ontogum.conllu", mentions="all")
    assert (conllu_found.tokens, conllu_found.mentions) == (columns.tokens, columns.mentions)
    assert conllu_found.mentions
    path = folder / f"{name}.gum.conll"
    (gum,), _ = read(path, mentions="all")
    marks = " ".join(line.split("\t")[2] for line in path.read_text().splitlines() if "\t" in line)
    assert gum.tokens == columns.tokens
    assert gum.counts["gold found"] == marks.count("(") == marks.count(")")
    entities = {found.split("-")[1] for found in re.findall(r"\(([^() ]+)", marks)}
    assert len({mention[2] for mention in gum.mentions}) == len(entities)


ONE = {(0, 2, "0")}
FIRST = {(0, 1, "0")}
WHOLE = odd_conllu("1/a/(e1 2/b/e1)")
LONG_PARTS = "# global.Entity = eid-etype-head-minspan-infstat-link-identity"
BRIDGED = row(1, "a", "Bridge=e1<e2|Entity=(e2-person-1-1,2-new-coref-B_O|SpaceAfter=No")

ODD_CONLLU = {
    "plain": (WHOLE, "a b", ONE),
    "no newdoc": (WHOLE.split("\n", 1)[1], "a b", ONE),
    "no line feed at the end": (WHOLE.rstrip("\n"), "a b", ONE),
    "carriage returns": (WHOLE.replace("\n", "\r\n"), "a b", ONE),
    "mark of the byte order": ("\ufeff" + WHOLE, "a b", ONE),
    "over two sentences": (odd_conllu("1/a/(e1 - 1/b/e1)"), "a b", ONE),
    "begun at several words": (odd_conllu("1-2/ab/(e1 1/a 2/b/e1)"), "a b", ONE),
    "over an empty node": (odd_conllu("1/a/(e1 1.1/_/(e2) 2/b/e1)"), "a b", ONE),
    "begun before the first word": (odd_conllu("0.1/_/(e1 1/a 2/b/e1)"), "a b", ONE),
    "word of an underscore": (odd_conllu("1/_/(e1)"), "_", FIRST),
    "words of number signs": (odd_conllu("1/a 2/# 3/#b/(e1)"), "a # #b", {(2, 3, "0")}),
    "words of numbers": (odd_conllu("1/10/(e1) 2/20", head=""), "10 20", FIRST),
    "blanks in words": (
        odd_conllu("1/10\u00a0000 2/New~York/(e1)").replace("~", " "),
        "10_000 New_York",
        {(1, 2, "0")},
    ),
    "other keys": ("\n".join([LONG_PARTS, BRIDGED, row(2, "b", "Entity=e2)")]), "a b", ONE),
    "kind before the entity": (
        odd_conllu("1/a/(person-e2 2/b/person-e2)", head="# global.Entity = etype-eid"),
        "a b",
        ONE,
    ),
    "end and begin in one": (
        odd_conllu("1/a/(e1 2/b/e1)(e2 3/c/e2)"),
        "a b c",
        {(0, 2, "0"), (1, 3, "1")},
    ),
    "pieces": (
        odd_conllu("1/a/(e1[1:2]-x 2/b/e1[1:2]) 3/c 4/d/(e1[2:2]-x) 5/e/(e1-x)"),
        "a b c d e",
        {(0, 2, "0"), (4, 5, "0")},
        {"further pieces of mentions": 1},
    ),
    "words that are not there": (
        odd_conllu("0.1/_/(e1-x(e2-y) 1/a/(e3-x 2/b/e1) 2.1/_/e3)"),
        "a b",
        ONE,
        {"mentions of no word": 1, "mentions that shared a span": 1},
    ),
    "no mention": (odd_conllu("1/a"), "a", set()),
}
A_B = narrow(("a", "(1"), ("b", "1)"))
COLUMNS = {
    "one word": (narrow(("a", "(1)")), "a", FIRST),
    "over two sentences": (narrow(("a", "(1"), None, ("b", "1)")), "a b", ONE),
    "one entity in itself": (
        narrow(("a", "(1(1"), ("b", "1)"), ("c", "1)")),
        "a b c",
        {(0, 3, "0"), (0, 2, "0")},
    ),
    "crossing": (CROSSING, "a b c d", {(0, 3, "0"), (1, 4, "1")}),
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
    "carriage returns": (A_B.replace("\n", "\r\n"), "a b", ONE),
    "mark of the byte order": ("\ufeff" + A_B, "a b", ONE),
    "blanks in words": (narrow(("a\u00a0b", "(1"), ("c", "1)")), "a_b c", ONE),
}


@pytest.mark.parametrize(
    ("text", "tokens", "expected", "counts"),
    [
        pytest.param(*case, *([{}] * (4 - len(case))), id=f"{kind}: {name}")
        for kind, cases in (("CoNLL-U", ODD_CONLLU), ("columns", COLUMNS))
        for name, case in cases.items()
    ],
)
def test_coreference_as_it_comes(tmp_path, text, tokens, expected, counts):
    (found,), problems = read(put(tmp_path / "x.conll", text), mentions="all", skip=False)
    assert found.title == ("d" if "# newdoc" in text or "#begin" in text else "x")
    assert found.tokens == tokens.split(" ")
    assert problems.skips.counts.total() == len(re.findall(r"^\d+[-.]\d+\t", text, re.MULTILINE))
    assert (spans(found), {reason: found.counts[reason] for reason in counts}) == (expected, counts)


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
        (odd_conllu("1/a/(e1") + odd_conllu("1/b/e1)"), "line 2: mention without end"),
        (odd_conllu("1/a/()"), "line 2: malformed coreference"),
        (odd_conllu("1/a/(e1-X_(y))", "# global.Entity = eid-identity"), "line 2: malformed"),
        (narrow(("a", "(1)")).encode("utf-16"), "line 1: not UTF-8"),
    ],
)
def test_what_is_no_coreference_is_one_line(tmp_path, text, message):
    path = put(tmp_path / "x.conll", text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: line ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_words_of_a_tree_in_columns_are_those_of_the_text(tmp_path):
    rows = [("-LRB-", "(S*", "-"), ("Ann", "(NP*)", "(1)"), ("-RRB-", "*)", "-")]
    keys = ("word", "parse", "column")
    lines = [WIDE.format(n=n, **dict(zip(keys, row, strict=True))) for n, row in enumerate(rows)]
    (found,), _ = read(put(tmp_path / "x.v4_gold_conll", wide(*lines)))
    ((_, tree),) = found.trees
    assert found.tokens == ["(", "Ann", ")"] == penn.leaves(tree)


@pytest.mark.parametrize(
    ("paths", "documents", "expected"),
    [
        *((["{0}"], 1, 2), (["{0}"], 200, 0), ({"train": ["{0}"]}, 1, 0)),
        ({"train": ["{0}"], "test": ["{0}"]}, 1, 1),
    ],
)
def test_a_split_without_documents_is_said(tmp_path, capsys, paths, documents, expected):
    path = put(tmp_path / "x.txt", "".join(f"a b {n}\n" for n in range(documents)))
    named = json.loads(json.dumps(paths).replace("{0}", str(path)))
    report = run(tmp_path / "out", named, "text")["report"]
    empty = [split for split, numbers in report["splits"].items() if not numbers["documents"]]
    said = capsys.readouterr().err
    assert len(report["warnings"]) == expected
    for warning in report["warnings"]:
        split = re.match(r"the split '(\w+)' has no document: ", warning)
        assert split
        assert split[1] in empty
        assert warning in said


def test_a_key_inside_or_another_key_twice_is_no_second_text(tmp_path):
    lines = '{"x": {"text": "b"}, "text": "a"}', '{"text": "a", "y": "text", "x": 1, "x": 2}'
    for line in lines:
        assert list(external.read_cleaned(put(tmp_path / "x.jsonl", line), None)) == [["a"]]


def test_parquet_has_strings_of_every_type_and_a_name_that_says_so(tmp_path):
    plain = pa.array(["a", "b", "a"])
    large = plain.cast(pa.large_string())
    views = plain.cast(pa.string_view())
    for column in (plain.dictionary_encode(), large, large.dictionary_encode(), views):
        pq.write_table(pa.table({"text": column}), tmp_path / "x.parquet")
        assert list(external.read_cleaned(tmp_path / "x.parquet", None)) == [["a", "b", "a"]]
    for name in ("x.txt", "x.jsonl", "x"):
        path = (tmp_path / "x.parquet").rename(tmp_path / name)
        said = re.escape(f"{path}: is a Parquet file; give it a name")
        check_refused(said, external.read_cleaned, path, None)
        path.rename(tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("text", "warned"), [('{"text": "a"}\n', True), ("{a} b\n", False), ("{}\n", False)]
)
def test_json_under_the_name_of_a_text_is_warned_of(tmp_path, capsys, text, warned):
    path = put(tmp_path / "x.txt", text)
    assert list(external.read_cleaned(path, None)) == [[text.strip()]]
    assert ("first line is a JSON object" in capsys.readouterr().err) == warned
