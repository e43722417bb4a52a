"""What a text, a dump or an annotated corpus can make a reader do: limits that are counted.

Needs nothing. Oracles: the documents that are left once what is beyond a limit is taken out; an
implementation without a shortcut; for work, what would take minutes if it were not bounded.
"""

from __future__ import annotations

import gzip
import json
import pickle
import random
from collections import Counter

import pytest

from beyond_perplexity.corpus import markup as markup_limits
from beyond_perplexity.corpus import penn, readers
from beyond_perplexity.corpus.annotated import merge_entities
from beyond_perplexity.corpus.extraction import Extractor, ItemBatch
from beyond_perplexity.corpus.extraction_options import ExtractionOptions, SourceOptions
from beyond_perplexity.corpus.linked import RECENT_TOKENS, Reader, derive_kinds
from beyond_perplexity.corpus.markup import (
    MarkupError,
    parse_article,
    unclosed_marks,
    unended_elements,
)
from beyond_perplexity.corpus.mediawiki import PageError, PageStream, RawPage, parse_page
from beyond_perplexity.corpus.readers import Problems, read_lines
from beyond_perplexity.corpus.text_files import read_jsonl, read_text
from beyond_perplexity.errors import InputError

# ---- lines ----


@pytest.mark.parametrize("chunk", [1, 3, 7, 1 << 20])
def test_a_line_beyond_the_limit_is_an_error_or_left_out(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(readers, "LONGEST_LINE_BYTES", 10)
    monkeypatch.setattr(readers, "CHUNK_BYTES", chunk)
    path = tmp_path / "a.txt"
    path.write_bytes(b"0123456789\n01234567890\n\nlast\n" + b"x" * 50)
    with pytest.raises(InputError, match=r"a\.txt: line 2: line too long .*more than 10 bytes"):
        list(read_lines(path, Problems(False)))
    problems = Problems(True)
    assert list(read_lines(path, problems)) == [(1, "0123456789"), (3, ""), (4, "last")]
    assert problems.skips.counts == {"line too long": 2}
    assert [place.split(": ")[1] for place in problems.skips.places["line too long"]] == [
        "line 2",
        "line 5",
    ]


def test_a_line_without_an_end_takes_time_in_its_length_alone(tmp_path):
    """Joined to what is held again with every chunk, 256 MB took minutes."""
    path = tmp_path / "zeros.gz"
    with gzip.open(path, "wb", 1) as file:
        for _ in range(256):
            file.write(b"a" * (1 << 20))
    problems = Problems(True)
    assert not list(read_text(path, problems))
    assert problems.skips.counts == {"line too long": 1}


def test_lines_are_those_of_split_whatever_the_chunks(tmp_path, monkeypatch):
    draw = random.Random(7)
    for trial in range(40):
        content = "".join(draw.choice("ab\n\n\r é") for _ in range(draw.randrange(60)))
        path = tmp_path / f"{trial}.txt"
        path.write_bytes(content.encode())
        monkeypatch.setattr(readers, "CHUNK_BYTES", draw.randrange(1, 9))
        wanted = content.split("\n")
        wanted = wanted if wanted[-1] else wanted[:-1]
        assert list(read_lines(path, Problems(False))) == list(enumerate(wanted, 1))


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ('{"text": "a", "n": ' + "1" * 5000 + "}", "more than 4300 digits"),
        ('{"text": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_absurd_json_is_one_line(tmp_path, line, detail):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "good"}\n' + line + "\n")
    with pytest.raises(InputError, match=f"line 2: not JSON \\(.*{detail}"):
        list(read_jsonl(path, Problems(False)))
    assert len(list(read_jsonl(path, Problems(True)))) == 1


# ---- pickles ----


def doubled(times):
    value: object = ("a", "b")
    for _ in range(times):
        value = (value, value)
    return value


def graph(tmp_path, content):
    path = tmp_path / "graph.pkl"
    path.write_bytes(content)
    return Reader(
        SourceOptions("linked-wikitext", ["x"], knowledge_graph=str(path)), Problems(False)
    )


def test_a_pickle_that_doubles_is_told_at_once(tmp_path):
    content = pickle.dumps({"Q1": [doubled(200)]})
    assert len(content) < 1200
    with pytest.raises(InputError, match=r"entity Q1: holds .*expected pairs") as caught:
        list(graph(tmp_path, content).triples())
    assert len(str(caught.value)) < 400


def test_lists_that_stand_in_many_places_are_no_graph(tmp_path):
    edges = [("r", "Q2")] * 3000
    shared = pickle.dumps({f"Q{number}": edges for number in range(3000)})
    with pytest.raises(InputError, match="has 9,000,000 entries in a file of"):
        list(graph(tmp_path, shared).triples())
    own = pickle.dumps({f"Q{number}": [("r", "Q2")] * 3 for number in range(100)})
    assert len(list(graph(tmp_path, own).triples())) == 300


# ---- pages ----


@pytest.mark.parametrize(
    "mark",
    ["<ref name=", "<ref>", "<b>", "<b a='", "{{a|", "[[a|", "\n{|", "[http://a ", "<nowiki>"],
)
def test_a_page_of_unclosed_marks_is_counted_not_timed(mark):
    with pytest.raises(MarkupError, match="too much unclosed markup"):
        parse_article(mark * 20_000 + "x")
    assert parse_article("Some words. " + mark * 3).infoboxes == 0


def test_what_is_closed_does_not_count():
    page = "{{a|[[b|c]]}} <b>d</b> <br> <li> <ref name=x/> <ref>e</ref> [http://a b]\n{|\n|}\n" * 9
    assert unclosed_marks(page) == []
    assert unended_elements(page, ("ref",)) == []
    assert unclosed_marks("<b>{{a|</b>}}") == [3]
    assert unclosed_marks("{{a [[b }} c]]") == [4]
    assert unclosed_marks("}} ]] </b> {{") == [11]
    assert unended_elements("<ref></ref><ref>", ("ref",)) == [11]
    assert unended_elements("<REF></rEf >", ("ref",)) == []


def test_the_limit_grows_with_the_page(monkeypatch):
    monkeypatch.setattr(markup_limits, "FREE_CHARACTERS", 100)
    monkeypatch.setattr(markup_limits, "TIMES_READ", 2)
    text = "<b>" + "x" * 297  # 300 characters, all of them behind the one mark
    markup_limits.check_markup(text)
    markup_limits.check_markup("<b>" * 2 + text[6:])  # 597 of 700
    with pytest.raises(MarkupError):
        markup_limits.check_markup("<b>" * 3 + text[9:])  # 891 of 700


def raw_page(namespace, text):
    revision = f"<revision><text>{text}</text></revision>"
    return RawPage("x", f"<page><title>A</title><ns>{namespace}</ns>{revision}</page>".encode())


def test_such_a_page_is_a_counted_skip():
    options = ExtractionOptions.from_config({"source": {"format": "mediawiki", "paths": ["x"]}})
    pages = [raw_page("0", "&lt;ref name=" * 2500), raw_page("0", "Plain words of a page.")]
    found = Extractor(options, 1)(ItemBatch(0, pages, None, frozenset()))
    assert found.skips.counts == {"page with too much unclosed markup": 1}
    assert found.counts["articles"] == 1


def test_a_namespace_of_thousands_of_digits_is_none():
    with pytest.raises(PageError, match="without title, namespace"):
        parse_page(raw_page("1" * 5000, "x"))
    assert parse_page(raw_page("-1", "x")).namespace == -1


def test_a_redirect_of_blanks_leads_nowhere():
    assert parse_page(raw_page("0", "#REDIRECT" + " " * 200_000)).redirect is None
    assert parse_page(raw_page("0", "#REDIRECT : [[B]]")).redirect == "B"


def test_entities_that_grow_are_no_page(tmp_path):
    names = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "x" * 10}">' for n in range(10))
    page = raw_page("0", "&e9;")
    path = tmp_path / "d.xml"
    path.write_bytes(b"<mediawiki>" + page.xml + b"</mediawiki>")
    assert len(list(PageStream(path, Problems(False)))) == 1
    with pytest.raises(PageError, match="not well-formed"):
        parse_page(RawPage("x", f"<!DOCTYPE page [{names}]>".encode() + page.xml))


# ---- annotated corpora ----


def test_brackets_that_never_close_are_not_read_again_and_again(tmp_path):
    path = tmp_path / "p.mrg"
    path.write_text("(\n" * 300_000 + "(S (NN a))\n")
    source = SourceOptions("penn", ["x"], on_error="skip")
    problems = Problems(True)
    list(penn.Reader(source, problems).read(path))
    assert problems.skips.counts["unbalanced brackets"] < 100
    path.write_text("(S (NN a)\n" * (penn.MAXIMUM_STARTS - 1) + "(S (NN b))\n")
    found = list(penn.Reader(source, Problems(True)).read(path))
    assert [document.tokens for document in found] == [["b"]]


def slow_kinds(mentions, heads):
    """Say of each mention what it is, straight by the definition."""
    kinds, last = [], {}
    for start, end, entity in mentions:
        recent = {other for other, at in last.items() if start - at <= RECENT_TOKENS}
        related = recent & heads.get(entity, frozenset())
        kinds.append("ongoing" if entity in recent else "related" if related else "new")
        last[entity] = end
    return kinds


def test_kinds_are_those_of_the_definition_for_nested_mentions():
    draw = random.Random(3)
    seen: Counter[str] = Counter()
    for _ in range(60):
        starts = sorted(draw.randrange(200) for _ in range(draw.randrange(40)))
        mentions = [(s, s + draw.randrange(1, 60), f"Q{draw.randrange(12)}") for s in starts]
        mentions.sort(key=lambda mention: (mention[0], -mention[1]))
        heads = {
            f"Q{n}": frozenset(f"Q{draw.randrange(12)}" for _ in range(draw.randrange(15)))
            for n in range(0, 12, 2)
        }
        found = list(derive_kinds(mentions, heads))
        assert found == slow_kinds(mentions, heads)
        seen.update(found)
    assert min(seen[kind] for kind in ("new", "related", "ongoing")) > 50


def test_many_entities_over_each_other_are_read(tmp_path):
    """Compared with all mentions before it, each of these would take minutes in all."""
    spans = [{"id": f"Q{n}", "source": "w", "span": [0, 30_000 - n]} for n in range(20_000)]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"tokens": ["a"] * 30_000, "annotations": spans}) + "\n")
    source = SourceOptions("linked-wikitext", ["x"], mentions="all")
    (document,) = Reader(source, Problems(False)).read(path)
    assert len(document.mentions) == 20_000


def test_chains_of_entities_become_one():
    n = 3000
    spans = [(i, i + 1, str(n - i - which)) for i in range(n) for which in (0, 1)]
    assert len({entity for _, _, entity in merge_entities(spans)}) == 1


def test_a_foreign_value_in_a_message_is_short(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        json.dumps({"tokens": ["a"], "annotations": [{"id": ["x" * 10**6], "span": [0, 1]}]})
    )
    with pytest.raises(InputError, match="field 'id'") as caught:
        list(Reader(SourceOptions("linked-wikitext", ["x"]), Problems(False)).read(path))
    assert len(str(caught.value)) < 400
