"""MediaWiki dumps: cutting pages, wikitext to paragraphs, links, matches, token spans, redirects.

Needs nothing but the package. Oracles: what MediaWiki shows for the markup, written by hand; the
spans' own characters; brute-force search for matches.
"""

from __future__ import annotations

import bz2
import re
from itertools import islice
from xml.sax.saxutils import escape

import pytest

from beyond_perplexity.corpus.markup import Paragraph, normalize_title, parse_article
from beyond_perplexity.corpus.mediawiki import (
    PageError,
    PageStream,
    RawPage,
    Redirects,
    add_matches,
    parse_page,
    tokenize,
)
from beyond_perplexity.corpus.normalization import Preprocessing
from beyond_perplexity.corpus.readers import Problems, resolve_path
from beyond_perplexity.errors import InputError

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
    return [paragraph.text for paragraph in parse_article(wikitext).paragraphs]


def mentions(paragraph):
    return [(paragraph.text[a:b], entity, kind) for a, b, entity, kind in paragraph.mentions]


# ---- the stream of pages ----


def test_pages_and_namespaces_are_read(tmp_path):
    dump = write_dump(
        tmp_path / "d.xml",
        page_xml("A", "x < y & [[B]]"),
        page_xml("C", "", redirect="A"),
        page_xml("Talk:A", "hm", namespace=1),
    )
    stream = PageStream(dump, Problems(False))
    pages = [parse_page(raw) for raw in stream]
    assert stream.namespaces == {"kategorie"}
    assert [(p.title, p.namespace, p.redirect, p.text) for p in pages] == [
        ("A", 0, None, "x < y & [[B]]"),
        ("C", 0, "A", ""),
        ("Talk:A", 1, None, "hm"),
    ]


def test_pages_survive_any_cut_of_the_chunks(tmp_path, monkeypatch):
    dump = write_dump(tmp_path / "d.xml", *(page_xml(f"T{n}", "é" * n) for n in range(40)))
    whole = list(PageStream(dump, Problems(False)))
    for size in (1, 7, 64):
        monkeypatch.setattr("beyond_perplexity.corpus.readers.CHUNK_BYTES", size)
        stream = PageStream(dump, Problems(False))
        assert list(stream) == whole
        assert stream.namespaces == {"kategorie"}
    content = dump.read_bytes()
    for raw in whole:  # the place is the byte where the page starts
        assert content[int(raw.place.split()[-1]) :].startswith(raw.xml)


def test_redirect_is_also_read_from_the_text():
    raw = RawPage("here", page_xml("A", "#WEITERLEITUNG [[Ziel (Ort)|x]]").encode())
    assert parse_page(raw).redirect == "Ziel (Ort)"


@pytest.mark.parametrize(
    ("xml", "reason"),
    [
        (b"<page><title>A</title><ns>0</ns><revision>", "not well-formed"),
        (b"<page><title>\xff</title></page>", "not UTF-8"),
        (b"<page><ns>0</ns><revision><text>x</text></revision></page>", "without title"),
        (b"<page><title>A</title><ns>0</ns></page>", "without title, namespace or text"),
        (b"<page><title>A</title><revision><text>x</text></revision></page>", "without title"),
        (
            b'<page><title>A</title><ns>0</ns><revision><text deleted="deleted" /></revision>'
            b"</page>",
            "deleted text",
        ),
    ],
)
def test_broken_pages_say_why(xml, reason):
    with pytest.raises(PageError, match=reason):
        parse_page(RawPage("here", xml))


def test_a_page_that_is_never_closed_breaks_no_other(tmp_path):
    broken = page_xml("Broken", "x").removesuffix("</page>")
    dump = write_dump(tmp_path / "d.xml", page_xml("A", "x"), broken, page_xml("B", "y"))
    found = []
    for raw in PageStream(dump, Problems(False)):
        try:
            found.append(parse_page(raw).title)
        except PageError:
            found.append(f"broken: {raw.describe().split(' (')[0]}")
    assert found == ["A", "broken: Broken", "B"]


def test_dumps_that_end_early_are_errors_or_counted(tmp_path):
    inside = HEADER + page_xml("A", "x") + page_xml("Half", "y")[:60]
    path = tmp_path / "plain.xml"
    path.write_text(inside)
    with pytest.raises(InputError, match=r"byte \d+: dump ends early .* inside Half"):
        list(PageStream(path, Problems(False)))
    problems = Problems(skip=True)
    assert [parse_page(raw).title for raw in PageStream(path, problems)] == ["A"]
    assert problems.skips.counts == {"dump ends early": 1}


def test_truncated_bz2_keeps_the_pages_before_the_end(tmp_path):
    whole = HEADER + page_xml("A", "x") + page_xml("B", "y")
    path = tmp_path / "d.bz2"
    # one finished stream, then a stream that breaks off
    path.write_bytes(bz2.compress(whole.encode()) + bz2.compress(b"<page>rest")[:20])
    with pytest.raises(InputError, match=f"{path}: decompressed byte .*truncated"):
        list(PageStream(path, Problems(False)))
    problems = Problems(skip=True)
    assert [parse_page(raw).title for raw in PageStream(path, problems)] == ["A", "B"]
    assert problems.skips.counts["truncated or damaged archive"] == 1


@pytest.mark.parametrize("content", [b"", b"just text", "<mediawiki>".encode("utf-16")])
def test_other_files_are_no_dumps(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a MediaWiki dump"):
        list(PageStream(path, Problems(False)))


# ---- markup ----

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


def test_links_keep_their_place_and_target():
    text = (
        "'''[[philosophy|Phil.]]''' of the [[dog]]s, {{x}}[[A_b#c|''it'' &amp; more]]"
        " [[Image:x.png]] [[:fr:Non|no]] [[#below|below]] [[talk:X|talk]] [[2001: A Space Odyssey]]"
    )
    (paragraph,) = parse_article(text).paragraphs
    assert paragraph.text.startswith("Phil. of the dogs, it & more no below")
    assert mentions(paragraph) == [
        ("Phil.", "Philosophy", "link"),
        ("dogs", "Dog", "link"),
        ("it & more", "A b", "link"),
        ("2001: A Space Odyssey", "2001: A Space Odyssey", "link"),
    ]


def test_control_characters_of_a_page_cannot_forge_a_link():
    (paragraph,) = parse_article("a\x010\x02b\x03 c &#1; [[d]]").paragraphs
    assert mentions(paragraph) == [("d", "D", "link")]


@pytest.mark.parametrize(
    ("target", "title"),
    [
        ("foo_bar ", "Foo bar"),
        ("éa", "Éa"),
        ("AT&amp;T", "AT&T"),
        ("Foo#Bar", "Foo"),
        ("#Bar", None),
        ("File:X.png", None),
        ("user talk:X", None),
        ("de:X", None),
        ("zh-min-nan:X", None),
        ("Kategorie:X", None),
        ("Mission: Impossible", "Mission: Impossible"),
        ("{{PAGENAME}}", None),
        ("", None),
    ],
)
def test_titles_are_normalized(target, title):
    assert normalize_title(target, frozenset({"kategorie"})) == title


def test_infobox_links_become_pairs():
    article = parse_article(
        "{{Infobox person\n| name = X\n| birth_place = [[Ulm]], [[German Empire|Germany]]\n"
        "| spouse = {{plainlist|\n* [[Mileva]]<ref>[[not this]]</ref>}}\n| image = [[File:x.jpg]]\n"
        "| again = [[Ulm]] and [[ulm]]\n}}\n{{Other|place=[[Bern]]}}\nText."
    )
    assert article.infoboxes == 1
    assert article.triples == [
        ("birth_place", "Ulm"),
        ("birth_place", "German Empire"),
        ("spouse", "Mileva"),
        ("again", "Ulm"),
    ]


# ---- mentions ----


def test_matches_come_after_the_first_link_as_whole_words_longest_first():
    paragraphs = parse_article(
        "New York is here. [[York]] and [[New York City|New York]]. "
        "Yorkshire, York, New York, new york."
        "\n\n[[Year|1990]] 1990. Ada and Ada Lovelace."
    ).paragraphs
    add_matches("Ada", paragraphs)
    assert mentions(paragraphs[0]) == [
        ("York", "York", "link"),
        ("New York", "New York City", "link"),
        ("York", "York", "title"),
        ("New York", "New York City", "alias"),
    ]
    assert mentions(paragraphs[1]) == [
        ("1990", "Year", "link"),
        ("Ada", "Ada", "title"),
        ("Ada", "Ada", "title"),
    ]


def test_an_anchor_takes_no_title_away_and_the_latest_anchor_counts():
    (paragraph,) = parse_article(
        "[[Saadi dynasty|Morocco]] [[Morocco]] [[Alaouite dynasty|Morocco]] Morocco "
        "[[Axis A|axis]] [[Axis B|axis]] axis"
    ).paragraphs
    add_matches("Other", [paragraph])
    found = [(anchor, entity) for anchor, entity, kind in mentions(paragraph) if kind != "link"]
    assert found == [("Morocco", "Morocco"), ("axis", "Axis B")]


def test_matches_agree_with_brute_force():
    text = "ab cab ab-c ab c abc ab. (ab) c ab"
    link = Paragraph("ab", [(0, 2, "X", "link")])
    plain = Paragraph(text)
    add_matches("zz", [link, plain])
    oracle = [m.span() for m in re.finditer(r"(?<!\w)ab(?!\w)", text)]
    assert [(a, b) for a, b, *_ in plain.mentions] == oracle


def spans(paragraph, **switches):
    preprocessing = Preprocessing.from_config(switches)
    ((tokens, kept),) = tokenize([paragraph], preprocessing.apply)
    return [" ".join(tokens[a:b]) for a, b, *_ in kept]


def test_token_spans_survive_normalization_and_tokenization():
    (paragraph,) = parse_article(
        "“[[Émile|Émile’s]]” … [[U.S.|the U.S.]] ([[don't]]), [[a–b]]; [[İzmir]] №5 [[100%|100 %]]."
    ).paragraphs
    found = spans(paragraph)
    expected = [
        Preprocessing.from_config({}).apply([anchor])[0] for anchor, *_ in mentions(paragraph)
    ]
    assert ["".join(f.split()) for f in found] == ["".join(e.split()) for e in expected]
    assert len(found) == 6


def test_spans_of_the_excerpt_spell_their_anchors():
    stream = PageStream(resolve_path("embedded:enwiki-excerpt"), Problems(False))
    pages = [parse_page(raw) for raw in islice(stream, 120)]
    paragraphs = [p for page in pages for p in parse_article(page.text).paragraphs]
    for paragraph in paragraphs:  # the anchor itself stands in for the entity
        found = paragraph.mentions
        paragraph.mentions = [(a, b, paragraph.text[a:b], kind) for a, b, _, kind in found]
    preprocess = Preprocessing.from_config({}).apply
    spelled, anchors = [], []
    for tokens, kept in tokenize(paragraphs, preprocess):
        spelled += [tokens[a:b] for a, b, *_ in kept]
        anchors += [anchor for *_, anchor, _ in kept]
    expected = [anchor.split() for anchor in preprocess(anchors)]
    assert len(anchors) > 0.98 * sum(len(paragraph.mentions) for paragraph in paragraphs) > 2000
    assert ["".join(tokens) for tokens in spelled] == ["".join(tokens) for tokens in expected]
    # alone, an abbreviation at the end of the anchor may lose its full stop
    same = sum(tokens == alone for tokens, alone in zip(spelled, expected, strict=True))
    assert same > 0.99 * len(anchors)


def test_anchor_inside_a_token_is_left_out():
    (paragraph,) = parse_article("anti-[[war]] and [[peace]]").paragraphs
    assert spans(paragraph) == ["peace"]


def test_a_text_that_changes_when_it_is_cut_keeps_the_spans_on_both_sides():
    def swap(texts):  # reorders across an edge, as ," becomes ",
        return [text.replace("b c", "c b") for text in texts]  # type: ignore[attr-defined]

    paragraph = Paragraph(
        "a b c d", [(0, 1, "A", "link"), (2, 3, "B", "link"), (6, 7, "D", "link")]
    )
    ((tokens, kept),) = tokenize([paragraph], swap)
    assert tokens == ["a", "c", "b", "d"]
    assert kept == [(0, 1, "A", "link"), (3, 4, "D", "link")]


def test_redirects_are_followed_to_the_end_and_circles_are_found(tmp_path):
    with Redirects(tmp_path / "r.sqlite") as redirects:
        redirects.add([("A", "B"), ("B", "C"), ("X", "Y"), ("Y", "X"), ("Z", "Z")])
        redirects.add([("A", "other"), ("D", "C")])
        assert [redirects.resolve(title) for title in "ABCXZ"] == ["C", "C", "C", None, None]
        assert list(redirects.aliases()) == [
            ("A", "C"), ("B", "C"), ("D", "C"), ("X", None), ("Y", None), ("Z", None),
        ]  # fmt: skip
    assert not list(tmp_path.iterdir())
