"""MediaWiki dumps: cutting pages, wikitext to paragraphs, links, matches, token spans, redirects.

Oracles: what MediaWiki shows for the markup, by hand; the spans' characters; brute-force matches.
Of limits: documents without what is beyond them, no shortcut, what would take minutes unbounded.
"""

import bz2
import gzip
import json
import pickle
import random
import re
from collections import Counter
from itertools import islice
from xml.sax.saxutils import escape

import pytest

from beyond_perplexity.corpus import coreference, extraction, markup, mediawiki, readers, text_files
from beyond_perplexity.corpus import markup as markup_limits
from beyond_perplexity.corpus.extraction_options import ExtractionOptions, SourceOptions
from beyond_perplexity.corpus.linked import RECENT_TOKENS, Reader, derive_kinds
from beyond_perplexity.corpus.mediawiki import PageStream, parse_page
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.corpus.readers import Problems, read_lines, resolve_path
from beyond_perplexity.errors import InputError
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_corpora import put

HEADER = (
    '<mediawiki xml:lang="en">\n<siteinfo><namespaces><namespace key="0" />'
    '<namespace key="14" case="first-letter">Kategorie</namespace></namespaces></siteinfo>\n'
)


def page_xml(title, text, namespace=0, redirect=""):
    element = f'<redirect title="{escape(redirect)}" />' if redirect else ""
    return (
        f"<page><title>{escape(title)}</title><ns>{namespace}</ns>{element}<revision>"
        f'<model>wikitext</model><text xml:space="preserve">{escape(text)}</text></revision></page>'
    )


def write_dump(path, *pages, end="</mediawiki>"):
    path.write_text(HEADER + "\n".join(pages) + end, encoding="utf-8")
    return path


def shown(wikitext):
    return [paragraph.text for paragraph in markup.parse_article(wikitext).paragraphs]


def mentions(paragraph):
    return [(paragraph.text[a:b], entity, kind) for a, b, entity, kind in paragraph.mentions]


def test_pages_survive_any_cut_of_the_chunks_and_odd_ones_are_read(tmp_path, monkeypatch):
    dump = write_dump(tmp_path / "d.xml", *(page_xml(f"T{n}", "é" * n) for n in range(40)))
    whole = list(PageStream(dump, Problems(False)))
    for size in (1, 7, 64):
        monkeypatch.setattr("beyond_perplexity.corpus.readers.CHUNK_BYTES", size)
        stream = PageStream(dump, Problems(False))
        assert (list(stream), stream.namespaces) == (whole, {"kategorie"})
    content = dump.read_bytes()
    for raw in whole:  # the place is the byte where the page starts
        assert content[int(raw.place.split()[-1]) :].startswith(raw.xml)
    with pytest.raises(mediawiki.PageError, match="without title, namespace"):
        parse_page(raw_page("1" * 5000, "x"))
    assert parse_page(raw_page("-1", "x")).namespace == -1
    assert parse_page(raw_page("0", "#REDIRECT" + " " * 200_000)).redirect is None
    assert parse_page(raw_page("0", "#REDIRECT : [[B]]")).redirect == "B"
    assert parse_page(raw_page("0", "#WEITERLEITUNG [[Ziel (Ort)|x]]")).redirect == "Ziel (Ort)"


DELETED = b'<revision><text deleted="deleted" /></revision></page>'


@pytest.mark.parametrize(
    ("xml", "reason"),
    [
        (b"<page><title>A</title><ns>0</ns><revision>", "not well-formed"),
        (b"<page><title>\xff</title></page>", "not UTF-8"),
        (b"<page><ns>0</ns><revision><text>x</text></revision></page>", "without title"),
        (b"<page><title>A</title><ns>0</ns></page>", "without title, namespace or text"),
        (b"<page><title>A</title><revision><text>x</text></revision></page>", "without title"),
        (b"<page><title>A</title><ns>0</ns>" + DELETED, "deleted text"),
    ],
)
def test_broken_pages_say_why(xml, reason):
    with pytest.raises(mediawiki.PageError, match=reason):
        parse_page(mediawiki.RawPage("here", xml))


def test_pages_and_namespaces_are_read_and_one_that_is_never_closed_breaks_no_other(tmp_path):
    broken = page_xml("Broken", "x").removesuffix("</page>")
    dump = write_dump(tmp_path / "d.xml", page_xml("A", "x"), broken, page_xml("B", "y"))
    found = []
    for raw in PageStream(dump, Problems(False)):
        try:
            found.append(parse_page(raw).title)
        except mediawiki.PageError:
            found.append(f"broken: {raw.describe().split(' (')[0]}")
    assert found == ["A", "broken: Broken", "B"]
    held = [page_xml("A", "x < y & [[B]]"), page_xml("C", "", redirect="A")]
    dump = write_dump(tmp_path / "d.xml", *held, page_xml("Talk:A", "hm", namespace=1))
    stream = PageStream(dump, Problems(False))
    pages = [parse_page(raw) for raw in stream]
    assert stream.namespaces == {"kategorie"}
    expected = [("A", 0, None, "x < y & [[B]]"), ("C", 0, "A", ""), ("Talk:A", 1, None, "hm")]
    assert [(p.title, p.namespace, p.redirect, p.text) for p in pages] == expected


AB = (HEADER + page_xml("A", "x") + page_xml("B", "y")).encode()


@pytest.mark.parametrize(
    ("content", "message", "reason"),
    [
        (
            AB + page_xml("Half", "y")[:60].encode(),
            r"byte \d+: dump ends early .* inside Half",
            "dump ends early",
        ),
        (
            bz2.compress(AB) + bz2.compress(b"<page>rest")[:20],
            "dump: decompressed byte .*truncated",
            "truncated or damaged archive",
        ),
    ],
)
def test_dumps_that_end_early_are_errors_or_keep_what_was_read(tmp_path, content, message, reason):
    path = put(tmp_path / "dump", content)
    check_refused(message, lambda: list(PageStream(path, Problems(False))))
    problems = Problems(skip=True)
    assert [parse_page(raw).title for raw in PageStream(path, problems)] == ["A", "B"]
    assert problems.skips.counts[reason] == 1


@pytest.mark.parametrize("content", [b"", b"just text", "<mediawiki>".encode("utf-16")])
def test_other_files_are_no_dumps(tmp_path, content):
    path = put(tmp_path / "other", content)
    check_refused("not a MediaWiki dump", lambda: list(PageStream(path, Problems(False))))


VISIBLE = [
    ("'''Bold''' and ''italic'' text.", ["Bold and italic text."]),
    ("A {{template|with {{nested}} [[link]]}} gap.", ["A gap."]),
    ("Fact.<ref name=x>[[Source]] {{cite}}</ref> More.<ref name=x/>", ["Fact. More."]),
    ("Before <!-- hidden\n\n[[x]] --> after.", ["Before after."]),
    ("Let <math>x^2 < 3</math> be.", ["Let be."]),
    ("See [[dog]]s and [[cat|the cat]].", ["See dogs and the cat."]),
    ("[[File:a.jpg|thumb|A [[dog]] here]] Text.", ["Text."]),
    ("Text.\n[[Category:Things]]\n[[fr:Chose]]", ["Text."]),
    ("See [[:Category:Things]].", ["See Category:Things."]),
    ("One\nline.\n\nTwo.", ["One line.", "Two."]),
    ("== Head ==\nText.\n* item\n# item\n: reply\n; term\nMore.", ["Text.", "More."]),
    ("Text.\n{| class=x\n| cell || [[cell]]\n|}\nMore.", ["Text.", "More."]),
    ("Text.\n code, indented\nMore.", ["Text.", "More."]),
    ("Link [http://a.org here], [http://b.org] and http://c.org now.",
     ["Link here, and http://c.org now."]),
    ("Tom &amp; Jerry&nbsp;&mdash; <small>is</small> H<sub>2</sub>O", ["Tom & Jerry — is H2O"]),
    ("<div>One.</div><p>Two.</p>", ["One.", "Two."]),
    ("Line<br />break.", ["Line break."]),
    ("Anarchism ({{IPA|x}}) is ({{lang|y}}; born 1900) here.",
     ["Anarchism is (born 1900) here."]),
    ("__NOTOC__\nText.", ["Text."]),
    ("Call f() and &#xD800; g( ).", ["Call f() and g( )."]),
    ("<nowiki>[[no link]]</nowiki> is shown.", ["[[no link]] is shown."]),
    ("L''''amour'''.", ["L'amour."]),
    ("{{unclosed\n\ntext '' [[ <ref> here", None),
]  # fmt: skip


@pytest.mark.parametrize(("wikitext", "expected"), VISIBLE)
def test_visible_text(wikitext, expected):
    found = shown(wikitext)  # broken markup must not raise
    if expected is not None:
        assert found == expected


def test_links_keep_their_place_and_target_and_none_can_be_forged():
    text = (
        "'''[[philosophy|Phil.]]''' of the [[dog]]s, {{x}}[[A_b#c|''it'' &amp; more]]"
        " [[Image:x.png]] [[:fr:Non|no]] [[#below|below]] [[talk:X|talk]] [[2001: A Space Odyssey]]"
    )
    (paragraph,) = markup.parse_article(text).paragraphs
    assert paragraph.text.startswith("Phil. of the dogs, it & more no below")
    links = [("Phil.", "Philosophy"), ("dogs", "Dog"), ("it & more", "A b")]
    links += [("2001: A Space Odyssey",) * 2]
    assert mentions(paragraph) == [(*link, "link") for link in links]
    (paragraph,) = markup.parse_article("a\x010\x02b\x03 c &#1; [[d]]").paragraphs
    assert mentions(paragraph) == [("d", "D", "link")]


@pytest.mark.parametrize(
    ("title", "targets"),
    [
        *(("Foo bar", ["foo_bar "]), ("Éa", ["éa"]), ("AT&T", ["AT&amp;T"])),
        ("Foo", ["Foo#Bar"]),
        ("Mission: Impossible", ["Mission: Impossible"]),
        (None, ["#Bar", "File:X.png", "user talk:X", "de:X", "zh-min-nan:X", "Kategorie:X"]),
        (None, ["{{PAGENAME}}", ""]),
    ],
)
def test_titles_are_normalized(title, targets):
    found = {markup.normalize_title(target, frozenset({"kategorie"})) for target in targets}
    assert found == {title}


def test_matches_come_after_the_first_link_as_whole_words_longest_first():
    first = "New York is here. [[York]] and [[New York City|New York]]. Yorkshire, York, New York, "
    second = "new york.\n\n[[Year|1990]] 1990. Ada and Ada Lovelace."
    paragraphs = markup.parse_article(first + second).paragraphs
    mediawiki.add_matches("Ada", paragraphs)
    assert mentions(paragraphs[0]) == [
        *(("York", "York", "link"), ("New York", "New York City", "link")),
        *(("York", "York", "title"), ("New York", "New York City", "alias")),
    ]
    assert mentions(paragraphs[1]) == [("1990", "Year", "link"), *[("Ada", "Ada", "title")] * 2]


def test_an_anchor_takes_no_title_away_the_latest_counts_and_matches_agree_with_brute_force():
    (paragraph,) = markup.parse_article(
        "[[Saadi dynasty|Morocco]] [[Morocco]] [[Alaouite dynasty|Morocco]] Morocco "
        "[[Axis A|axis]] [[Axis B|axis]] axis"
    ).paragraphs
    mediawiki.add_matches("Other", [paragraph])
    found = [(anchor, entity) for anchor, entity, kind in mentions(paragraph) if kind != "link"]
    assert found == [("Morocco", "Morocco"), ("axis", "Axis B")]
    text = "ab cab ab-c ab c abc ab. (ab) c ab"
    link = markup.Paragraph("ab", [(0, 2, "X", "link")])
    plain = markup.Paragraph(text)
    mediawiki.add_matches("zz", [link, plain])
    oracle = [m.span() for m in re.finditer(r"(?<!\w)ab(?!\w)", text)]
    assert [(a, b) for a, b, *_ in plain.mentions] == oracle


def spans(paragraph, **switches):
    preprocessing = Preprocessing.from_config(switches)
    ((tokens, kept),) = mediawiki.tokenize([paragraph], preprocessing.apply)
    return [" ".join(tokens[a:b]) for a, b, *_ in kept]


def test_token_spans_survive_cleaning_and_anchors_inside_tokens_are_left_out():
    (paragraph,) = markup.parse_article(
        "“[[Émile|Émile’s]]” … [[U.S.|the U.S.]] ([[don't]]), [[a–b]]; [[İzmir]] №5 [[100%|100 %]]."
    ).paragraphs
    found = spans(paragraph)
    expected = Preprocessing.from_config({}).apply([anchor for anchor, *_ in mentions(paragraph)])
    assert ["".join(f.split()) for f in found] == ["".join(e.split()) for e in expected]
    assert len(found) == 6
    (paragraph,) = markup.parse_article("anti-[[war]] and [[peace]]").paragraphs
    assert spans(paragraph) == ["peace"]

    def swap(texts):  # reorders across an edge, as ," becomes ",
        return [text.replace("b c", "c b") for text in texts]  # type: ignore[attr-defined]

    links = [(0, 1, "A", "link"), (2, 3, "B", "link"), (6, 7, "D", "link")]
    paragraph = markup.Paragraph("a b c d", links)
    ((tokens, kept),) = mediawiki.tokenize([paragraph], swap)
    assert tokens == ["a", "c", "b", "d"]
    assert kept == [(0, 1, "A", "link"), (3, 4, "D", "link")]


def test_spans_of_the_excerpt_spell_their_anchors():
    stream = PageStream(resolve_path("embedded:enwiki-excerpt"), Problems(False))
    pages = [parse_page(raw) for raw in islice(stream, 120)]
    paragraphs = [p for page in pages for p in markup.parse_article(page.text).paragraphs]
    for paragraph in paragraphs:  # the anchor itself stands in for the entity
        found = paragraph.mentions
        paragraph.mentions = [(a, b, paragraph.text[a:b], kind) for a, b, _, kind in found]
    preprocess = Preprocessing.from_config({}).apply
    spelled, anchors = [], []
    for tokens, kept in mediawiki.tokenize(paragraphs, preprocess):
        spelled += [tokens[a:b] for a, b, *_ in kept]
        anchors += [anchor for *_, anchor, _ in kept]
    expected = [anchor.split() for anchor in preprocess(anchors)]
    assert len(anchors) > 0.98 * sum(len(paragraph.mentions) for paragraph in paragraphs) > 2000
    assert ["".join(tokens) for tokens in spelled] == ["".join(tokens) for tokens in expected]
    # alone, an abbreviation at the end of the anchor may lose its full stop
    same = sum(tokens == alone for tokens, alone in zip(spelled, expected, strict=True))
    assert same > 0.99 * len(anchors)


def test_infobox_links_become_pairs_and_redirects_are_followed_to_the_end(tmp_path):
    with mediawiki.Redirects(tmp_path / "r.sqlite") as redirects:
        redirects.add([("A", "B"), ("B", "C"), ("X", "Y"), ("Y", "X"), ("Z", "Z")])
        redirects.add([("A", "other"), ("D", "C")])
        assert [redirects.resolve(title) for title in "ABCXZ"] == ["C", "C", "C", None, None]
        assert list(redirects.aliases()) == [
            ("A", "C"), ("B", "C"), ("D", "C"), ("X", None), ("Y", None), ("Z", None),
        ]  # fmt: skip
    assert not list(tmp_path.iterdir())
    article = markup.parse_article(
        "{{Infobox person\n| name = X\n| birth_place = [[Ulm]], [[German Empire|Germany]]\n"
        "| spouse = {{plainlist|\n* [[Mileva]]<ref>[[not this]]</ref>}}\n| image = [[File:x.jpg]]\n"
        "| again = [[Ulm]] and [[ulm]]\n}}\n{{Other|place=[[Bern]]}}\nText."
    )
    assert article.infoboxes == 1
    triples = [("birth_place", "Ulm"), ("birth_place", "German Empire"), ("spouse", "Mileva")]
    assert article.triples == [*triples, ("again", "Ulm")]


@pytest.mark.parametrize("chunk", [1, 3, 7, 1 << 20])
def test_a_line_beyond_the_limit_is_an_error_or_left_out(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(readers, "LONGEST_LINE_BYTES", 10)
    monkeypatch.setattr(readers, "CHUNK_BYTES", chunk)
    path = put(tmp_path / "a.txt", b"0123456789\n01234567890\n\nlast\n" + b"x" * 50)
    with pytest.raises(InputError, match=r"a\.txt: line 2: line too long .*more than 10 bytes"):
        list(read_lines(path, Problems(False)))
    problems = Problems(True)
    assert list(read_lines(path, problems)) == [(1, "0123456789"), (3, ""), (4, "last")]
    assert problems.skips.counts == {"line too long": 2}
    places = problems.skips.places["line too long"]
    assert [place.split(": ")[1] for place in places] == ["line 2", "line 5"]


def test_lines_are_those_of_split_in_time_of_their_length_alone(tmp_path, monkeypatch):
    """Joined to what is held again with every chunk, 256 MB took minutes."""
    path = tmp_path / "zeros.gz"
    with gzip.open(path, "wb", 1) as file:
        for _ in range(256):
            file.write(b"a" * (1 << 20))
    problems = Problems(True)
    assert not list(text_files.read_text(path, problems))
    assert problems.skips.counts == {"line too long": 1}
    draw = random.Random(7)
    for trial in range(40):
        content = "".join(draw.choice("ab\n\n\r é") for _ in range(draw.randrange(60)))
        path = put(tmp_path / f"{trial}.txt", content.encode())
        monkeypatch.setattr(readers, "CHUNK_BYTES", draw.randrange(1, 9))
        wanted = content.split("\n")
        wanted = wanted if wanted[-1] else wanted[:-1]
        assert list(read_lines(path, Problems(False))) == list(enumerate(wanted, 1))


def doubled(times):
    value: object = ("a", "b")
    for _ in range(times):
        value = (value, value)
    return value


def graph(tmp_path, content):
    files = {"knowledge_graph": str(put(tmp_path / "graph.pkl", content))}
    return Reader(SourceOptions("linked-wikitext", ["x"], **files), Problems(False))


def test_a_pickle_that_doubles_is_told_at_once(tmp_path):
    content = pickle.dumps({"Q1": [doubled(200)]})
    assert len(content) < 1200
    with pytest.raises(InputError, match=r"entity Q1: holds .*expected pairs") as caught:
        list(graph(tmp_path, content).triples())
    assert len(str(caught.value)) < 400
    annotations = [{"id": ["x" * 10**6], "span": [0, 1]}]
    path = put(tmp_path / "a", json.dumps({"tokens": ["a"], "annotations": annotations}))
    with pytest.raises(InputError, match="field 'id'") as caught:
        list(Reader(SourceOptions("linked-wikitext", ["x"]), Problems(False)).read(path))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "mark",
    ["<ref name=", "<ref>", "<b>", "<b a='", "{{a|", "[[a|", "\n{|", "[http://a ", "<nowiki>"],
)
def test_a_page_of_unclosed_marks_is_counted_not_timed(mark):
    with pytest.raises(markup.MarkupError, match="too much unclosed markup"):
        markup.parse_article(mark * 20_000 + "x")
    assert markup.parse_article("Some words. " + mark * 3).infoboxes == 0


def test_what_is_closed_does_not_count_and_the_limit_grows_with_the_page(monkeypatch):
    page = "{{a|[[b|c]]}} <b>d</b> <br> <li> <ref name=x/> <ref>e</ref> [http://a b]\n{|\n|}\n" * 9
    assert (markup.unclosed_marks(page), markup.unended_elements(page, ("ref",))) == ([], [])
    assert markup.unclosed_marks("<b>{{a|</b>}}") == [3]
    assert markup.unclosed_marks("{{a [[b }} c]]") == [4]
    assert markup.unclosed_marks("}} ]] </b> {{") == [11]
    assert markup.unended_elements("<ref></ref><ref>", ("ref",)) == [11]
    assert markup.unended_elements("<REF></rEf >", ("ref",)) == []
    monkeypatch.setattr(markup_limits, "FREE_CHARACTERS", 100)
    monkeypatch.setattr(markup_limits, "TIMES_READ", 2)
    text = "<b>" + "x" * 297  # 300 characters, all of them behind the one mark
    for marks in (1, 2):  # 597 of 700
        markup.parse_article("<b>" * marks + text[3 * marks :])
    with pytest.raises(markup.MarkupError):
        markup.parse_article("<b>" * 3 + text[9:])  # 891 of 700


def raw_page(namespace, text):
    revision = f"<revision><text>{text}</text></revision>"
    page = f"<page><title>A</title><ns>{namespace}</ns>{revision}</page>"
    return mediawiki.RawPage("x", page.encode())


def test_such_a_page_is_a_counted_skip(tmp_path):
    options = ExtractionOptions.from_config({"source": {"format": "mediawiki", "paths": ["x"]}})
    pages = [raw_page("0", "&lt;ref name=" * 2500), raw_page("0", "Plain words of a page.")]
    found = extraction.Extractor(options, 1)(extraction.ItemBatch(0, pages, None, frozenset()))
    assert found.skips.counts == {"page with too much unclosed markup": 1}
    assert found.counts["articles"] == 1
    names = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "x" * 10}">' for n in range(10))
    page = raw_page("0", "&e9;")
    path = put(tmp_path / "d.xml", b"<mediawiki>" + page.xml + b"</mediawiki>")
    assert len(list(PageStream(path, Problems(False)))) == 1
    with pytest.raises(mediawiki.PageError, match="not well-formed"):
        parse_page(mediawiki.RawPage("x", f"<!DOCTYPE page [{names}]>".encode() + page.xml))


def test_kinds_are_those_of_the_definition_for_nested_mentions():
    """Oracle: the definition, with the last end of each entity."""
    draw = random.Random(3)
    seen: Counter[str] = Counter()
    for _ in range(60):
        starts = sorted(draw.randrange(200) for _ in range(draw.randrange(40)))
        mentions = [(s, s + draw.randrange(1, 60), f"Q{draw.randrange(12)}") for s in starts]
        mentions.sort(key=lambda mention: (mention[0], -mention[1]))
        sizes = {n: draw.randrange(15) for n in range(0, 12, 2)}
        heads = {f"Q{n}": {f"Q{draw.randrange(12)}" for _ in range(k)} for n, k in sizes.items()}
        last: dict[str, int] = {}
        for (start, end, entity), kind in zip(mentions, derive_kinds(mentions, heads), strict=True):
            recent = {other for other, at in last.items() if start - at <= RECENT_TOKENS}
            related = recent & heads.get(entity, set())
            assert kind == ("ongoing" if entity in recent else "related" if related else "new")
            last[entity] = end
            seen[kind] += 1
    assert min(seen[kind] for kind in ("new", "related", "ongoing")) > 50


def test_chains_of_entities_become_one_however_many_lie_over_each_other(tmp_path):
    """Compared with all mentions before it, each of these would take minutes in all."""
    spans = [{"id": f"Q{n}", "source": "w", "span": [0, 30_000 - n]} for n in range(20_000)]
    path = put(tmp_path / "a", json.dumps({"tokens": ["a"] * 30_000, "annotations": spans}))
    source = SourceOptions("linked-wikitext", ["x"], mentions="all")
    (document,) = Reader(source, Problems(False)).read(path)
    assert len(document.mentions) == 20_000
    n = 3000
    spans = [(i, i + 1, str(n - i - which)) for i in range(n) for which in (0, 1)]
    assert len({entity for _, _, entity in coreference.merge_entities(spans)}) == 1
