"""The extraction of whole corpora: tables, report, splits, duplicates, errors, the command.

Needs gensim's dump excerpt. Oracles: documents by hand; other orders, pages and workers; a plain
XML parser; hashlib's keyed hashes (BLAKE2b); the raw text cleaned again; binomial errors.
"""

import bz2
import hashlib
import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beyond_perplexity.corpus import extraction, normalization, readers, shallow_trees
from beyond_perplexity.corpus.extraction_options import ExtractionOptions
from beyond_perplexity.corpus.formats import SplitOptions, hash_uniform
from beyond_perplexity.corpus.tables import EXTRACTED as TABLES
from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.fingerprint import ROOT
from beyond_perplexity.storage.provenance import run_record
from beyond_perplexity.storage.shards import check_schema, read_record
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_corpora import put
from tests.unit.test_mediawiki import page_xml, write_dump

RECORD = run_record("scripts/extract_corpus.py", {}, seed=1)


def outputs(folder):
    files = {name: folder / f"{name}.parquet" for name in TABLES}
    return files | {"report": folder / "extraction.json"}


def run_options(folder, config, *, workers=1, seed=1):
    """Extract into a folder; return the report with each table's rows."""
    options = ExtractionOptions.from_config(config)
    report = extraction.extract(options, outputs(folder), RECORD, seed=seed, workers=workers)
    assert json.loads((folder / "extraction.json").read_text()) == report
    tables = {name: pq.read_table(folder / f"{name}.parquet").to_pylist() for name in TABLES}
    return {"report": report, **tables}


def run(folder, paths, kind="mediawiki", *, workers=1, on_error="error", **sections):
    source = {"format": kind, "paths": paths, "on_error": on_error}
    return run_options(folder, {"source": source, **sections}, workers=workers)


@pytest.fixture(scope="module")
def excerpt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("excerpt")
    result = run(folder, ["embedded:enwiki-excerpt"], documents={"minimum_tokens": 5})
    for name in TABLES:
        check_schema(folder / f"{name}.parquet", TABLES[name])
    return result


def test_excerpt_counts_agree_with_a_plain_xml_parser(excerpt):
    content = readers.resolve_path("embedded:enwiki-excerpt").read_bytes()
    root = ElementTree.fromstring(bz2.decompress(content))
    space = "{http://www.mediawiki.org/xml/export-0.10/}"
    articles = [page for page in root.iter(f"{space}page") if page.findtext(f"{space}ns") == "0"]
    redirects = [page for page in articles if page.find(f"{space}redirect") is not None]
    report = excerpt["report"]
    assert report["pages"] == len(list(root.iter(f"{space}page")))
    assert report["redirects"] == len(redirects) == report["aliases"] == 99
    assert report["articles"] == len(articles) - len(redirects) == 106
    report = excerpt["report"]
    assert 450_000 < report["tokens"] < 490_000
    assert 17_000 < report["mentions"]["link"]["kept"] < 20_000
    assert report["mentions"]["link"]["kept"] > 0.99 * report["mentions"]["link"]["found"]
    assert 45 <= report["articles_with_infobox"] <= 55
    assert 900 < report["knowledge_graph"] < 1100


def test_excerpt_report_counts_its_tables_and_deals_documents_that_occur_once(excerpt):
    report = excerpt["report"]
    rows = excerpt["documents"]
    assert [row["doc_id"] for row in rows] == list(range(len(rows)))
    assert all(row["n_tokens"] == len(row["text"].split(" ")) >= 5 for row in rows)
    for split, numbers in report["splits"].items():
        held = [row["n_tokens"] for row in rows if row["split"] == split]
        assert numbers == {"documents": len(held), "tokens": sum(held)}
    found = Counter(row["source"] for row in excerpt["mentions"])
    assert found == {source: n["written"] for source, n in report["mentions"].items()}
    assert report["skips"]["shorter than minimum_tokens"]["count"] > 0
    rows = excerpt["documents"]
    assert len({row["text"] for row in rows}) == len(rows)
    none = {"valid": 0, "test": 0}
    assert excerpt["report"]["split"] == {"unit": "document", "also_in_train": none}
    check_shares([row["split"] for row in rows])
    # a page with n paragraphs has all of them in one split with probability Σ share^n
    sizes = Counter(row["title"] for row in rows)
    splits = {title: {row["split"] for row in rows if row["title"] == title} for title in sizes}
    whole = [sum(share**n for share in (0.7, 0.1, 0.2)) for n in sizes.values()]
    found = sum(len(held) == 1 for held in splits.values())
    assert abs(found - sum(whole)) < 4 * math.sqrt(sum(p * (1 - p) for p in whole))


def raw_quotes(text):
    """Say of each double quote of a text as people write it whether it closes, by blanks alone."""
    found = []
    for mark in re.finditer("[\"“”„«»]|''|``", text):
        before = text[: mark.start()][-1:] in (*"([{-—–/ \n\t", "")
        behind = text[mark.end() :][:1] in (*")]}.,;:!?—–-/ \n\t", "")
        kind = "?" if before == behind else "closes" if behind else "opens"
        found.append({"“": "opens", "”": "closes"}.get(mark.group(), kind))
    return found


def test_no_sentence_of_a_real_text_begins_with_what_closes(excerpt):
    """Oracle: quotes beside blanks before the text was cut: at most one of 5,000 sentences."""
    raw = {row["doc_id"]: row["text"] for row in excerpt["raw"]}
    begins: Counter[str] = Counter()
    for document in excerpt["documents"]:
        tokens = document["text"].split()
        kinds = raw_quotes(raw[document["doc_id"]])
        assert len(kinds) == tokens.count('"')
        for number, sentence in enumerate(shallow_trees.sentences(tokens)):
            closing = kinds[0] if sentence[0] == '"' else sentence[0]
            begins[closing if number else ""] += 1
            kinds = kinds[sentence.count('"') :]
    assert begins.total() > 15_000
    assert begins["opens"] > 40
    assert not {*")]}", "-RRB-", "''", "”"} & set(begins)
    assert begins["closes"] <= begins.total() / 5_000


def test_excerpt_raw_text_is_that_before_cleaning_and_the_order_the_keyed_hash(excerpt):
    raw = excerpt["raw"]
    assert [row["doc_id"] for row in raw] == [row["doc_id"] for row in excerpt["documents"]]
    cleaned = normalization.Preprocessing().apply([row["text"] for row in raw])
    assert cleaned == [row["text"] for row in excerpt["documents"]]
    changed = sum(row["text"] != text for row, text in zip(raw, cleaned, strict=True))
    assert changed > 0.99 * len(raw)
    joined = " ".join(row["text"] for row in raw)
    assert "Abraham Lincoln" in joined
    assert not [mark for mark in ("[[", "{{", "'''", "<ref") if mark in joined]
    key = (1).to_bytes(16, "little")
    texts = [row["text"] for row in excerpt["documents"]]
    digests = [hashlib.blake2b(t.encode(), digest_size=16, key=key).digest() for t in texts]
    assert digests == sorted(digests)


def test_excerpt_mentions_are_apart_inside_their_documents_and_spell_titles(excerpt):
    lengths = [row["n_tokens"] for row in excerpt["documents"]]
    end = {}
    for row in excerpt["mentions"]:
        assert end.get(row["doc_id"], 0) <= row["start"] < row["end"] <= lengths[row["doc_id"]]
        end[row["doc_id"]] = row["end"]
    redirected = {row["entity"] for row in excerpt["aliases"]}
    tokens = [row["text"].split(" ") for row in excerpt["documents"]]
    titles = [row for row in excerpt["mentions"] if row["source"] == "title"]
    known = [row for row in titles if row["entity"] not in redirected and row["entity"].isascii()]
    assert len(known) > 1000
    for row in known:
        spelled = "".join(tokens[row["doc_id"]][row["start"] : row["end"]])
        assert spelled == row["entity"].lower().replace(" ", "")


PROSE = "The [[Ada Lovelace|countess]] wrote number {} on the [[Analytical engine]] in [[London]]."


def pages(count):
    return [page_xml(f"Page {n}", PROSE.format(n)) for n in range(count)]


def test_a_dump_becomes_four_tables(tmp_path):
    dump = write_dump(
        tmp_path / "d.xml",
        page_xml(
            "Ada Lovelace",
            "{{Infobox person|birth_place=[[London]]|work=[[Difference Engine]]}}\n"
            "'''Ada Lovelace''' was born in [[london]]. {{cn}}\n* list [[x]]\n== Head ==\nTiny.",
        ),
        page_xml("Difference Engine", "", redirect="difference engines"),
        page_xml("Difference engines", "", redirect="Analytical engine#Plan"),
        page_xml("Loop", "", redirect="Loop"),
        page_xml("Out", "", redirect="Category:Engines"),
        page_xml("Talk:Ada Lovelace", "A talk about many things here.", namespace=1),
        "<page><title>Broken</title><ns>0</ns><revision><text>&nothing;</text></revision></page>",
        page_xml("Work", "She liked the [[difference Engine]] very much."),
    )
    result = run(tmp_path, [str(dump)], documents={"minimum_tokens": 3})
    texts = {row["title"]: row for row in result["documents"]}
    assert texts["Ada Lovelace"]["text"] == "ada lovelace was born in london ."
    assert texts["Work"]["text"] == "she liked the difference engine very much ."
    assert len(texts) == len(result["documents"]) == 2
    found = {(row["entity"], row["source"], row["start"], row["end"]) for row in result["mentions"]}
    links = {("London", "link", 5, 6), ("Analytical engine", "link", 3, 5)}
    assert found == {("Ada Lovelace", "title", 0, 2), *links}
    assert result["knowledge_graph"] == [
        {"subject": "Ada Lovelace", "relation": "birth_place", "object": "London"},
        {"subject": "Ada Lovelace", "relation": "work", "object": "Analytical engine"},
    ]
    names = "Difference Engine", "Difference engines"
    assert result["aliases"] == [{"entity": "Analytical engine", "alias": name} for name in names]
    skips = {reason: entry["first"] for reason, entry in result["report"]["skips"].items()}
    broken = skips.pop("page is not well-formed XML")
    assert broken[0].startswith("Broken (")
    expected = {"page of another namespace": ["Talk:Ada Lovelace"]}
    expected |= {"redirect in a circle": ["Loop"], "redirect out of the articles": ["Out"]}
    expected |= {"shorter than minimum_tokens": ["Ada Lovelace"]}
    assert skips == expected


def test_parts_of_a_dump_are_read_as_one_and_another_seed_orders_the_same(tmp_path):
    pieces = {"whole": pages(9), "first": pages(9)[:4], "second": pages(9)[4:]}
    paths = {name: str(write_dump(tmp_path / name, *held)) for name, held in pieces.items()}
    one = run(tmp_path / "one", [paths["whole"]])
    two = run(tmp_path / "two", [paths["first"], paths["second"]])
    assert all(one[name] == two[name] for name in TABLES)
    dump = write_dump(tmp_path / "d.xml", *pages(50))
    config = {"source": {"format": "mediawiki", "paths": [str(dump)]}}
    found = [run_options(tmp_path / str(n), config, seed=n)["documents"] for n in (1, 2)]
    orders = [[row["title"] for row in rows] for rows in found]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


def test_workers_and_batches_change_no_byte(tmp_path, monkeypatch):
    monkeypatch.setattr("beyond_perplexity.storage.provenance._now", lambda: "now")
    dump = write_dump(tmp_path / "d.xml", *pages(60), "<page>broken</page>", *pages(70)[60:])
    run(tmp_path / "two", [str(dump)])
    (tmp_path / "two").rename(tmp_path / "one")  # a footer names the file that it is in
    monkeypatch.setattr(extraction, "BATCH_CHARACTERS", 2000)
    run(tmp_path / "two", [str(dump)], workers=2)
    for name in (*(f"{table}.parquet" for table in TABLES), "extraction.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_truncated_dump_or_worker_error_leaves_nothing_or_what_was_read(tmp_path):
    dump = write_dump(tmp_path / "d.xml", *pages(5), end="<page><title>Half</title>")
    content = bz2.compress(dump.read_bytes()) + bz2.compress(b"lost" * 1000)[:30]
    packed = put(tmp_path / "d.xml.bz2", content)
    check_refused("truncated or damaged archive", run, tmp_path / "error", [str(packed)])
    assert list((tmp_path / "error").iterdir()) == []
    report = run(tmp_path / "skip", [str(packed)], on_error="skip")["report"]
    assert report["documents"] == 5
    assert set(report["skips"]) == {"truncated or damaged archive", "dump ends early"}
    good = write_dump(tmp_path / "d.xml", *pages(5))
    with pytest.raises(InputError, match="no such file"):
        run(tmp_path / "out", [str(good), str(tmp_path / "missing.xml")], workers=2)
    assert list((tmp_path / "out").iterdir()) == []


def lines(path, *texts):
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return str(path)


def table_and_records(folder, texts):
    """Write texts as a table and as objects, a line each."""
    pq.write_table(pa.table({"text": texts}), folder / "c.parquet")
    rows = (json.dumps({"text": text}) for text in texts)
    return str(folder / "c.parquet"), lines(folder / "c.jsonl", *rows)


def test_all_formats_give_the_same_documents_and_raw_texts_as_the_file_has_them(tmp_path):
    texts = [f"Document {n}, isn't it?" for n in range(30)]
    paths = (*table_and_records(tmp_path, texts), lines(tmp_path / "c.txt", *texts))
    kinds = ("parquet", "jsonl", "text")
    found = [run(tmp_path / k, [path], k) for path, k in zip(paths, kinds, strict=True)]
    assert found[0]["documents"] == found[1]["documents"] == found[2]["documents"]
    assert len(found[0]["documents"]) == 30
    assert found[0]["raw"] == found[1]["raw"] == found[2]["raw"]
    for name in ("mentions", "knowledge_graph", "aliases", "trees"):
        assert found[0][name] == []
        assert pq.read_schema(tmp_path / "text" / f"{name}.parquet").equals(TABLES[name])
    texts = ["Two  blanks, \tHere", " A line.\n\nAnother\u00a0one. \n", "Ünïcode ‘quotes’…"]
    plain = put(tmp_path / "c.txt", b" Windows  ends \r\nUnix ends\n")
    for path, kind in zip(table_and_records(tmp_path, texts), ("parquet", "jsonl"), strict=True):
        result = run(tmp_path / kind, [path], kind)
        assert sorted(row["text"] for row in result["raw"]) == sorted(texts)
        assert "a line . another one ." in {row["text"] for row in result["documents"]}
    result = run(tmp_path / "text", [str(plain)], "text")
    assert {row["text"] for row in result["raw"]} == {" Windows  ends ", "Unix ends"}


def test_duplicates_are_kept_once_and_counted_unless_wanted(tmp_path):
    path = lines(tmp_path / "c.txt", "a b c", "d e f", "A  b c", "a b c", "")
    once = run(tmp_path / "once", [path], "text")
    assert sorted(row["text"] for row in once["documents"]) == ["a b c", "d e f"]
    assert once["report"]["skips"]["duplicate document"]["count"] == 2
    assert once["report"]["skips"]["empty document"]["first"] == [f"{path}: line 5"]
    every = run(tmp_path / "all", [path], "text", documents={"deduplicate": False})
    assert Counter(row["text"] for row in every["documents"]) == {"a b c": 3, "d e f": 1}


def test_token_limits_are_inclusive_and_files_may_give_the_splits(tmp_path):
    path = lines(tmp_path / "c.txt", "a", "a b", "a b c", "a b c d")
    limits = {"minimum_tokens": 2, "maximum_tokens": 3}
    result = run(tmp_path, [path], "text", documents=limits)
    assert {row["text"] for row in result["documents"]} == {"a b", "a b c"}
    reasons = {reason: entry["count"] for reason, entry in result["report"]["skips"].items()}
    assert reasons == {"shorter than minimum_tokens": 1, "longer than maximum_tokens": 1}
    paths = {name: [lines(tmp_path / name, f"the {name} text")] for name in ("test", "train")}
    result = run(tmp_path, paths, "text")
    assert result["report"]["split"]["unit"] == "given"
    expected = {(split, f"the {split} text") for split in ("train", "test")}
    assert {(row["split"], row["text"]) for row in result["documents"]} == expected


def test_wrong_encoding_and_empty_corpora_are_errors(tmp_path):
    path = put(tmp_path / "latin.txt", "schön\n".encode("latin-1"))
    check_refused(r"latin\.txt: line 1: not UTF-8", run, tmp_path / "out", [str(path)], "text")
    with pytest.raises(InputError, match=r"no document is left of this corpus \(1 not UTF-8\)"):
        run(tmp_path / "out", [str(path)], "text", on_error="skip")
    path.write_bytes(b"")
    check_refused("it is empty", run, tmp_path / "out", [str(path)], "text")
    assert list((tmp_path / "out").iterdir()) == []


SOURCE, PENN = ({"format": kind, "paths": ["x"]} for kind in ("text", "penn"))


def split(**values):
    return {"source": SOURCE, "split": values}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "source: a required key is missing"),
        ({"source": SOURCE, "spilt": {}}, "spilt: unknown key"),
        ({"source": {**SOURCE, "pahts": []}}, r"source\.pahts: unknown key"),
        ({"source": {**SOURCE, "format": "pdf"}}, r"source\.format: is 'pdf'"),
        ({"source": {**SOURCE, "paths": []}}, "source: paths names no file"),
        ({"source": {**SOURCE, "paths": {"dev": ["x"]}}}, "source: paths has the keys dev"),
        ({"source": {**SOURCE, "paths": {"train": "x"}}}, "paths of a split are a list"),
        ({"source": SOURCE, "documents": {"minimum": 1}}, r"documents\.minimum: unknown key"),
        ({"source": SOURCE, "documents": {"minimum_tokens": 0}}, "minimum_tokens: is 0"),
        (
            {"source": SOURCE, "documents": {"minimum_tokens": 5, "maximum_tokens": 4}},
            "maximum_tokens is 4",
        ),
        (split(dev=1.0), r"split\.dev: unknown key; allowed are unit, train, valid, test"),
        (split(unit="line"), r"split\.unit: is 'line', expected one of 'document', 'page'"),
        (split(train=0.8), r"sum to 1\.1, not to 1"),
        (split(train=1.5, valid=-0.5, test=0.0), "train: is 1.5"),
        (split(train="most", valid=0.1, test=0.0), r"split\.train"),
        ({"source": SOURCE, "preprocessing": []}, "preprocessing: is"),
        (
            {**split(train=1.0), "source": {**SOURCE, "paths": {"train": ["x"]}}},
            r"split: source\.paths already gives the splits",
        ),
        ({"source": PENN, "trees": {"kind": "shallow"}}, "a treebank has trees"),
        (
            {"source": PENN, "preprocessing": {"tokenizer": "moses"}},
            r"preprocessing\.tokenizer: .* keeps the tok",
        ),
        (
            {"source": PENN, "preprocessing": {"normalize_punctuation": True}},
            "normalize_punctuation",
        ),
    ],
)
def test_wrong_options_name_their_key(config, message):
    check_refused(message, ExtractionOptions.from_config, config)


def command(folder, config, *more):
    flags = [f"--{name.replace('_', '-')}={folder / name}.parquet" for name in TABLES]
    line = [sys.executable, "-m", "scripts.extract_corpus", f"--config={json.dumps(config)}"]
    rest = ["--seed=1", "--workers=1", f"--report={folder / 'extraction.json'}", *flags, *more]
    return subprocess.run([*line, *rest], capture_output=True, text=True, cwd=ROOT, check=False)


def test_the_command_writes_all_files_with_a_record_or_ends_with_one_line(tmp_path):
    done = command(tmp_path, {"source": {"format": "text", "paths": ["/nowhere.txt"]}})
    assert done.returncode == 1
    assert "error: /nowhere.txt: no such file" in done.stderr
    assert list(tmp_path.iterdir()) == []
    path = lines(tmp_path / "c.txt", "One document.", "Another document.")
    config = {"source": {"format": "text", "paths": ["elsewhere.txt"]}}
    done = command(tmp_path, config, "--paths", path)
    assert done.returncode == 0, done.stderr
    for name in TABLES:
        assert read_record(tmp_path / f"{name}.parquet")["seed"] == 1
    assert json.loads((tmp_path / "extraction.json").read_text())["sources"] == [path]


TITLES = [f"Page {number}" for number in range(20_000)]


def test_the_hash_is_blake2_and_a_page_is_in_one_split_by_title_alone():
    digest = hashlib.blake2b("Zürich".encode(), digest_size=8).hexdigest()
    assert hash_uniform("Zürich") == pytest.approx(int(digest, 16) / 16**16, abs=2**-53)
    options = SplitOptions("page")
    for title in TITLES[:50]:
        assert len({options.choose(title, text) for text in TITLES[:20]}) == 1
    # 0.7 + 0.3 - 1 may be off by a rounding: nothing may fall behind the last split
    shares = SplitOptions("page", 0.7, 0.3, 0.0)
    assert {shares.choose(title, "") for title in TITLES} == {"train", "valid"}


def test_shares_are_met_within_four_standard_errors():
    # by document, of one page too; by page, whatever its text is; without titles
    chosen, by_page = (SplitOptions(unit, 0.7, 0.1, 0.2).choose for unit in ("document", "page"))
    check_shares([chosen("Page", text) for text in TITLES])
    check_shares([chosen(title, "text") for title in TITLES])
    check_shares([by_page(title, "text") for title in TITLES])
    check_shares([by_page("", text) for text in TITLES])


def check_shares(chosen):
    for split, share in (("train", 0.7), ("valid", 0.1), ("test", 0.2)):
        error = math.sqrt(share * (1 - share) / len(chosen))
        assert abs(chosen.count(split) / len(chosen) - share) < 4 * error


def test_by_document_title_and_text_both_decide_and_their_border_counts():
    options = SplitOptions("document", 0.5, 0.0, 0.5)

    def agreement(pairs):
        return sum(options.choose(*a) == options.choose(*b) for a, b in pairs) / len(pairs)

    numbers = range(10_000)
    error = 4 * math.sqrt(0.25 / len(numbers))
    other_title = [((f"A{n}", "x"), (f"B{n}", "x")) for n in numbers]
    other_border = [((f"A{n}", "b c"), (f"A{n}b", " c")) for n in numbers]
    assert agreement(other_title) == pytest.approx(0.5, abs=error)
    assert agreement(other_border) == pytest.approx(0.5, abs=error)
    assert agreement([(one, one) for one, _ in other_title]) == 1
    # a document without a title: the same in either unit
    untitled = [("", f"text {n}") for n in numbers]
    by_page = SplitOptions("page", 0.5, 0.0, 0.5)
    assert all(options.choose(*one) == by_page.choose(*one) for one in untitled)


def chapters(count, *shared):
    """Return pages of three paragraphs of their own, and those that all pages have."""
    own = ([f"Line {k} of it is {n}." for k in range(3)] for n in range(count))
    return [page_xml(f"Page {n}", "\n\n".join([*lines, *shared])) for n, lines in enumerate(own)]


@pytest.mark.parametrize("unit", ["document", "page"])
def test_a_bigger_dump_keeps_splits_and_order(unit, tmp_path):
    small = write_dump(tmp_path / "s.xml", *chapters(80))
    big = write_dump(tmp_path / "b.xml", *reversed(chapters(200)))
    options = {"split": {"unit": unit}}
    found = run(tmp_path / "s", [str(small)], **options)
    kept = found["documents"]
    assert found["report"]["split"]["unit"] == unit
    names = {row["title"] for row in kept}
    bigger = run(tmp_path / "b", [str(big)], **options)["documents"]
    again = [row for row in bigger if row["title"] in names]
    pages_and_splits = {(row["title"], row["split"]) for row in kept}
    assert (len(pages_and_splits) == len(names)) == (unit == "page")
    assert [row | {"doc_id": 0} for row in again] == [row | {"doc_id": 0} for row in kept]
    assert {row["split"] for row in kept} == {"train", "valid", "test"}


@pytest.mark.parametrize("unit", ["document", "page"])
def test_cleaning_does_not_decide_the_split(unit, tmp_path):
    dump = write_dump(tmp_path / "d.xml", *chapters(40))
    splits = []
    for name, steps in (("a", {}), ("b", {"lower_case": False, "tokenizer": "none"})):
        result = run(tmp_path / name, [str(dump)], preprocessing=steps, split={"unit": unit})
        raw = {row["doc_id"]: row["text"] for row in result["raw"]}
        splits.append({(d["title"], raw[d["doc_id"]]): d["split"] for d in result["documents"]})
    assert (splits[0], len(set(splits[0].values()))) == (splits[1], 3)


@pytest.mark.parametrize("unit", ["document", "page"])
def test_a_text_of_the_test_split_is_not_in_train_or_is_counted(unit, tmp_path):
    # forty pages share a paragraph, and every second page is there twice
    forty = chapters(40, "One for all.")
    dump = write_dump(tmp_path / "d.xml", *forty, *forty[::2])
    shares, both = {"unit": unit, "train": 0.5, "valid": 0.2, "test": 0.3}, {}
    for deduplicate in (True, False):
        folder, options = tmp_path / str(deduplicate), {"deduplicate": deduplicate}
        result = run(folder, [str(dump)], documents=options, split=shares)
        rows = result["documents"]
        train = [row["text"] for row in rows if row["split"] == "train"]
        again = [row["split"] for row in rows if row["text"] in train]
        both[deduplicate] = {split: again.count(split) for split in ("valid", "test")}
        assert result["report"]["split"]["also_in_train"] == both[deduplicate]
        if not deduplicate:  # the same title and text are in one split, wherever they stand
            raw = {row["doc_id"]: row["text"] for row in result["raw"]}
            placed = {(row["title"], raw[row["doc_id"]], row["split"]) for row in rows}
            assert len(placed) == 40 * 4
            assert len(rows) == 60 * 4
    assert both[True] == {"valid": 0, "test": 0}
    assert min(both[False].values()) > 0


def annotated_file(kind, path):
    """Write 60 documents of two words; of twelve titles where the format has titles."""
    documents = {
        "penn": lambda n: f"(S (NN Zoë) (NN W{n}))",
        "conll": lambda n: (
            f"#begin document (t{n % 12}); part {n // 12:03}\n"
            f"t 0 0 Zoë NN * - - - - * -\nt 0 1 W{n} NN * - - - - * -\n\n#end document"
        ),
        "linked-wikitext": lambda n: json.dumps(
            {"title": f"t{n % 12}", "tokens": ["Zoë", f"W{n}"], "annotations": []}
        ),
    }[kind]
    return lines(path, *map(documents, range(60)))


@pytest.mark.parametrize("unit", ["document", "page"])
@pytest.mark.parametrize("kind", ["penn", "conll", "linked-wikitext"])
def test_annotated_documents_are_split_by_either_unit(kind, unit, tmp_path):
    path = annotated_file(kind, tmp_path / "corpus")
    source = {"format": kind, "paths": [path]} | ({"document": "tree"} if kind == "penn" else {})
    config = {"source": source, "split": {"unit": unit, "train": 0.4, "valid": 0.3, "test": 0.3}}
    found = run_options(tmp_path / "out", config)
    documents, raw = found["documents"], found["raw"]
    choose = ExtractionOptions.from_config(config).split.choose
    assert found["report"]["split"]["unit"] == unit
    assert {row["text"] for row in documents} == {f"zoe w{n}" for n in range(60)}
    for before, after in zip(raw, documents, strict=True):
        assert before["doc_id"] == after["doc_id"]
        assert before["text"] == after["text"].replace("zoe w", "Zoë W")
        assert after["split"] == choose(after["title"], before["text"])
    titles = {row["title"] for row in documents}
    pairs = {(row["title"], row["split"]) for row in documents}
    assert {row["split"] for row in documents} == {"train", "valid", "test"}
    assert (len(pairs) == len(titles)) == (unit == "page" or kind == "penn")
