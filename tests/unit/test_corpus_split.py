"""Splits by a hash of the document or page: uniform, stable, disjoint. Needs nothing.

Oracles: the binomial standard error of the shares; the BLAKE2b digest read as a hexadecimal number;
the same corpus with more pages or cleaned in another way; texts looked up in those of training.
"""

from __future__ import annotations

import hashlib
import json
import math

import pyarrow.parquet as pq
import pytest

from beyond_perplexity.corpus.extraction import extract
from beyond_perplexity.corpus.extraction_options import ExtractionOptions
from beyond_perplexity.corpus.formats import SplitOptions, hash_uniform
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import parse_options
from tests.unit.test_extract_corpus import RECORD, outputs, run
from tests.unit.test_mediawiki import page_xml, write_dump

TITLES = [f"Page {number}" for number in range(20_000)]


def test_hash_is_blake2_as_a_fraction():
    digest = hashlib.blake2b("Zürich".encode(), digest_size=8).hexdigest()
    assert hash_uniform("Zürich") == pytest.approx(int(digest, 16) / 16**16, abs=2**-53)


def test_shares_are_met_within_four_standard_errors():
    # by document, of one page too; by page, whatever its text is; without titles
    chosen = SplitOptions("document", 0.7, 0.1, 0.2).choose
    by_page = SplitOptions("page", 0.7, 0.1, 0.2).choose
    texts = TITLES
    for splits in (
        [chosen("Page", text) for text in texts],
        [chosen(title, "text") for title in TITLES],
        [by_page(title, "text") for title in TITLES],
        [by_page("", text) for text in texts],
    ):
        check_shares(splits)


def check_shares(chosen):
    for split, share in (("train", 0.7), ("valid", 0.1), ("test", 0.2)):
        error = math.sqrt(share * (1 - share) / len(TITLES))
        assert abs(chosen.count(split) / len(TITLES) - share) < 4 * error


def test_a_page_is_in_one_split_by_title_alone():
    options = SplitOptions("page")
    for title in TITLES[:50]:
        assert len({options.choose(title, text) for text in TITLES[:20]}) == 1


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


def test_an_empty_share_gets_nothing():
    # 0.7 + 0.3 - 1 may be off by a rounding: nothing may fall behind the last split
    shares = SplitOptions("page", 0.7, 0.3, 0.0)
    assert {shares.choose(title, "") for title in TITLES} == {"train", "valid"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train": 0.5, "valid": 0.1, "test": 0.1}, "sum to 0.7"),
        ({"train": 1.5, "valid": -0.5, "test": 0.0}, "train: is 1.5"),
        ({"train": 0.9, "valid": 0.1, "tset": 0.0}, r"split\.tset: unknown key"),
        ({"unit": "paragraph"}, r"split\.unit: is 'paragraph', expected one of 'document', 'page'"),
        ({"train": "most", "valid": 0.1, "test": 0.0}, r"split\.train"),
    ],
)
def test_wrong_shares_are_errors(values, message):
    with pytest.raises(InputError, match=message):
        parse_options(SplitOptions, values, "split")


# ---- splits of whole corpora ----


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
    drop = {"doc_id"}
    assert [{k: v for k, v in row.items() if k not in drop} for row in again] == [
        {k: v for k, v in row.items() if k not in drop} for row in kept
    ]
    assert {row["split"] for row in kept} == {"train", "valid", "test"}


@pytest.mark.parametrize("unit", ["document", "page"])
def test_cleaning_does_not_decide_the_split(unit, tmp_path):
    dump = write_dump(tmp_path / "d.xml", *chapters(40))
    splits = []
    for name, steps in (("a", {}), ("b", {"lower_case": False, "tokenizer": "none"})):
        result = run(tmp_path / name, [str(dump)], preprocessing=steps, split={"unit": unit})
        raw = {row["doc_id"]: row["text"] for row in result["raw"]}
        splits.append({(d["title"], raw[d["doc_id"]]): d["split"] for d in result["documents"]})
    assert splits[0] == splits[1]
    assert len(set(splits[0].values())) == 3


@pytest.mark.parametrize("unit", ["document", "page"])
def test_a_text_of_the_test_split_is_not_in_train_or_is_counted(unit, tmp_path):
    # forty pages share a paragraph, and every second page is there twice
    forty = chapters(40, "One for all.")
    dump = write_dump(tmp_path / "d.xml", *forty, *forty[::2])
    both = {}
    for deduplicate in (True, False):
        result = run(
            tmp_path / str(deduplicate),
            [str(dump)],
            documents={"deduplicate": deduplicate},
            split={"unit": unit, "train": 0.5, "valid": 0.2, "test": 0.3},
        )
        texts = {
            split: [row["text"] for row in result["documents"] if row["split"] == split]
            for split in ("train", "valid", "test")
        }
        copies = {
            split: sum(text in texts["train"] for text in texts[split])
            for split in ("valid", "test")
        }
        assert result["report"]["split"]["also_in_train"] == copies
        both[deduplicate] = copies
        if not deduplicate:  # the same title and text are in one split, wherever they stand
            raw = {row["doc_id"]: row["text"] for row in result["raw"]}
            placed = {(d["title"], raw[d["doc_id"]], d["split"]) for d in result["documents"]}
            assert len(placed) == 40 * 4
            assert len(result["documents"]) == 60 * 4
    assert both[True] == {"valid": 0, "test": 0}
    assert min(both[False].values()) > 0


def annotated_file(kind, path):
    """Write 60 documents of two words; of twelve titles where the format has titles."""
    if kind == "penn":
        text = "".join(f"(S (NN Zoë) (NN W{n}))\n" for n in range(60))
    elif kind == "conll":
        text = "".join(
            f"#begin document (t{n % 12}); part {n // 12:03}\n"
            f"t 0 0 Zoë NN * - - - - * -\nt 0 1 W{n} NN * - - - - * -\n\n#end document\n"
            for n in range(60)
        )
    else:
        text = "".join(
            json.dumps({"title": f"t{n % 12}", "tokens": ["Zoë", f"W{n}"], "annotations": []})
            + "\n"
            for n in range(60)
        )
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("unit", ["document", "page"])
@pytest.mark.parametrize("kind", ["penn", "conll", "linked-wikitext"])
def test_annotated_documents_are_split_by_either_unit(kind, unit, tmp_path):
    path = annotated_file(kind, tmp_path / "corpus")
    source = {"format": kind, "paths": [path]} | ({"document": "tree"} if kind == "penn" else {})
    config = {"source": source, "split": {"unit": unit, "train": 0.4, "valid": 0.3, "test": 0.3}}
    options = ExtractionOptions.from_config(config)
    report = extract(options, outputs(tmp_path / "out"), RECORD, seed=1, workers=1)
    names = ("documents", "raw")
    documents, raw = (pq.read_table(tmp_path / f"out/{name}.parquet").to_pylist() for name in names)
    assert report["split"]["unit"] == unit
    assert {row["text"] for row in documents} == {f"zoe w{n}" for n in range(60)}
    for before, after in zip(raw, documents, strict=True):
        assert before["doc_id"] == after["doc_id"]
        assert before["text"] == after["text"].replace("zoe w", "Zoë W")
        assert after["split"] == options.split.choose(after["title"], before["text"])
    titles = {row["title"] for row in documents}
    pairs = {(row["title"], row["split"]) for row in documents}
    assert {row["split"] for row in documents} == {"train", "valid", "test"}
    assert (len(pairs) == len(titles)) == (unit == "page" or kind == "penn")
