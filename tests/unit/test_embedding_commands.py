"""The commands that embed documents and compare their vectors, from files to tables.

The encoder counts letters. Oracles: the vectors of the documents by plain Python; how samples are
cut into shards; the adjusted p-values of one test more.
"""

import json
import math

import numpy as np
import pandas as pd
import pytest

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.inference.p_values import holm_chains
from beyond_perplexity.report import compare, comparison_page, sensitivity
from beyond_perplexity.semantics.evaluators import contract
from beyond_perplexity.semantics.evaluators.contract import encoder_of, named_evaluator
from beyond_perplexity.signature import sign
from beyond_perplexity.storage.shards import read_record, write_shard
from beyond_perplexity.tendencies.definitions import family_of
from beyond_perplexity.tendencies.embedded_documents import read_embeddings
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.tendencies.measures import measure_rows, measure_table
from beyond_perplexity.verdicts import WITHOUT_VERDICT
from scripts import embed, measure_embeddings
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_corpora import write_documents
from tests.unit.text_pairs import pair_of, run_script, write_samples

LETTERS = "abcdefgh"
LIMIT = 40  # characters that the stand-in reads
OPTIONS = MeasurementOptions(permutations=199, bootstrap=0, monte_carlo=0)


class _Counter:
    """Counts letters; a text without one has no vector."""

    width, limit, truncated = len(LETTERS), LIMIT, 0

    def encode(self, texts):
        self.truncated += sum(len(x) > LIMIT for x in texts)
        found = np.array([[x[:LIMIT].count(c) for c in LETTERS] for x in texts], np.float32)
        found[found.sum(axis=1) == 0] = np.nan
        return found.reshape(-1, len(LETTERS))


class Stand(contract.SentenceEvaluator):
    def __init__(self):
        super().__init__(_Counter())

    def describe(self):
        return {"title": "Letters & <counts>", "sha256": "0" * 64}


class Blind(contract.Evaluator):
    measures = ("cosine",)

    def score(self, pairs):
        return {}

    def describe(self):
        return {"title": "word vectors"}


def texts_of(seed, n, more=0.0):
    rng = np.random.default_rng(seed)
    law = np.full(len(LETTERS), (1 - more) / len(LETTERS))
    law[0] += more
    return [" ".join(rng.choice(list(LETTERS), rng.integers(5, 30), p=law)) for _ in range(n)]


HUMAN, MORE = texts_of(1, 60), texts_of(2, 80)
OTHERS = {0.0: texts_of(3, 50), 0.5: texts_of(4, 50, 0.5)}


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    monkeypatch.setattr(embed, "load_evaluator", lambda options, device: Stand())
    monkeypatch.setattr(contract, "named_evaluator", lambda name: Stand())


def embedded(folder, shards, *flags, most=40, name="vectors.parquet", titles=False):
    texts = [*HUMAN, *MORE]
    pages = [f"page {i // 2}" if titles else "x" for i in range(len(texts))]
    splits = ["test"] * len(HUMAN) + ["train"] * len(MORE)
    corpus = write_documents(folder / "documents.parquet", texts, splits, pages)
    given = ["--encoder", "{}", "--reference-documents", corpus, "--samples", *shards]
    given += ["--documents", most, "--seed", 1, "--output", folder / name]
    run_script(embed, *given, *flags)
    return folder / name


def shard(folder, sample_set, number, texts):
    path = folder / "samples" / "lstm" / sample_set / f"{number:05d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_samples(path, texts)


def test_vectors_are_those_of_the_documents_however_they_are_sharded(tmp_path):
    whole = shard(tmp_path / "a", "beam", 0, OTHERS[0.0])
    parts = [shard(tmp_path / "b", "beam", i, OTHERS[0.0][20 * i : 20 * (i + 1)]) for i in range(3)]
    files = [embedded(tmp_path, own, name=f"{len(own)}.parquet") for own in ([whole], parts)]
    one, other = map(read_embeddings, files)
    assert set(one) == {("reference", "raw"), ("further", "raw"), ("lstm/beam", "raw")}
    for key, held in one.items():
        assert np.array_equal(held.vectors, other[key].vectors)
    possible = {tuple(row) for row in _Counter().encode(OTHERS[0.0]).tolist()}
    assert len(one["lstm/beam", "raw"]) == 40
    assert {tuple(row) for row in one["lstm/beam", "raw"].vectors.tolist()} <= possible
    assert np.array_equal(one["further", "raw"].vectors, _Counter().encode(MORE[:40]))
    assert read_record(files[0])["evaluator"] == Stand().describe()


def test_texts_are_read_in_the_vocabulary_and_cut_and_groups_thinned(tmp_path):
    words = tmp_path / "known.txt"
    words.write_text("a\nb\n")
    shards = [shard(tmp_path, "beam", 0, OTHERS[0.0])]
    flags = ["--vocabularies", str(words), "--readings", '{"lstm/beam": "known"}']
    flags += ["--maximum-tokens", "4", "--first", "30"]
    found = read_embeddings(embedded(tmp_path, shards, *flags))
    assert set(found) == {("reference", "known"), ("further", "known"), ("lstm/beam", "known")}
    for held in found.values():
        assert np.nansum(held.vectors[:, 2:]) == 0  # <unk> has none of these letters
        assert np.nansum(held.vectors, axis=1).max() <= 4
        assert len(held) == (30 if held is found["reference", "known"] else 40)
    shards = [shard(tmp_path, "beam", 0, OTHERS[0.0])]
    flags = ["--group-column", "title"]
    found = read_embeddings(embedded(tmp_path, shards, *flags, most=30, titles=True))
    groups = found["reference", "raw"].groups
    assert len(groups) == 30
    assert 15 < len(np.unique(groups)) < 30  # half of the documents of 30 pages of two
    assert found["further", "raw"].groups is not None
    assert found["lstm/beam", "raw"].groups is None


def measured(folder, sample_sets, *flags):
    shards = [shard(folder, name.split("/")[1], 0, texts) for name, texts in sample_sets.items()]
    vectors, tables = embedded(folder, shards), []
    for source, texts in sample_sets.items():
        with pair_of(HUMAN, texts) as pair:
            table = measure_table(measure_rows(pair, OPTIONS, 1), pair, source)
        tables.append(folder / f"{source.replace('/', '_')}.parquet")
        line = sign("tendencies", text="run", permutations=199, holm=1, embedding=None)
        write_shard(tables[-1], table.schema, table, {"signature": line})
    given = ["--embeddings", vectors, "--measures", *tables, "--output", folder / "joined.parquet"]
    run_script(measure_embeddings, *given, *flags)
    joined = pd.read_parquet(folder / "joined.parquet")
    page = sensitivity.embeddings_table(joined, Labels())
    rows = joined[joined["measure"] == "mmd"].set_index("source")
    return joined, rows, {row[1].lower(): row for row in page.rows}


def test_measures_of_sample_sets_have_their_embeddings(tmp_path):
    """Text of another law is found, human text is not; p-values are adjusted for one test more."""
    sample_sets = {"lstm/alike": OTHERS[0.0], "lstm/other": OTHERS[0.5]}
    shifts = tmp_path / "shifts.parquet"
    flags = ["--seed", 1, "--options", '{"permutations": 199}', "--output-sensitivity", shifts]
    flags += ["--sensitivity-options", '{"documents": [40, 400], "pairs": 40, "level": 0.05}']
    joined, rows, cells = measured(tmp_path, sample_sets, *flags)
    # With the title of the encoder.
    line = sign("tendencies", text="run", permutations=199, holm=1, embedding="Letters & <counts>")
    assert read_record(tmp_path / "joined.parquet")["signature"] == line
    assert rows.loc["lstm/other", "p_value"] == 0.005
    assert rows.loc["lstm/other", "low"] > 0
    assert rows.loc["lstm/alike", "p_value"] > 0.05
    assert abs(rows.loc["lstm/alike", "excess"]) < rows.loc["lstm/other", "excess"] / 3
    for source in sample_sets:
        own = joined[joined["source"] == source]
        tested = own[own["p_value"].notna()].set_index(["tendency", "measure"])
        children = {"mean_difference": "ks", "tvd_1000": "tvd", "similarity_difference": "mmd"}
        children |= {"max_difference_known": "max_difference"}
        assert ("embedding", "mmd") in tested.index
        for family in ("", "order"):
            parents = [
                key
                for key in tested.index
                if key[1] not in children and family_of(key[0]) == family
            ]
            chains = [
                [key, *(x for x in tested.index if (x[0], children.get(x[1])) == key)]
                for key in parents
            ]
            held = [[tested.loc[key, "p_value"] for key in chain] for chain in chains]
            for chain, adjusted in zip(chains, holm_chains(held), strict=True):
                assert tested.loc[chain, "p_adjusted"].tolist() == pytest.approx(adjusted)
    shifts = pd.read_parquet(shifts)
    assert shifts["tendency"].tolist() == ["embedding"] * 2
    assert shifts["relative"].is_monotonic_decreasing
    assert "*" in cells["other"][3]
    assert "*" not in cells["alike"][3]
    assert cells["other"][-3] == "40 / 40"
    told = "40 of 60 documents of the reference embedded; 40 of 50 documents of the samples"
    assert rows.loc["lstm/other", "note"].startswith(told)


def test_a_body_without_vectors_is_far_from_all_others_and_counted(tmp_path):
    """Documents of words that the encoder does not know do not leave the comparison."""
    sample_sets = {"lstm/alike": OTHERS[0.0], "lstm/strange": ["xyz"] * 50}
    flags = ["--options", '{"permutations": 19}', "--sensitivity-options", '{"pairs": 10}']
    _, rows, cells = measured(tmp_path, sample_sets, *flags)
    assert rows.loc["lstm/alike", "p_value"] > 0
    strange = rows.loc["lstm/strange"]
    assert strange["value"] > 1
    assert strange["p_value"] == 0.05  # the least that 19 permutations have
    assert "40 of 40 documents of the samples have no vector" in strange["note"]
    assert (cells["strange"][-3], cells["strange"][-1]) == ("40 / 40", "0 / 40")


def compared(folder, samples, out=None, pages=0, **more):
    """Compare samples with human text, of so many pages, from files."""
    rows = [{"text": x} | ({"group": str(i % pages)} if pages else {}) for i, x in enumerate(HUMAN)]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "b.txt").write_text("\n".join(samples) + "\n")
    how = {"tokenized": True, "permutations": 199, "bootstrap": 0, "embedding": "letters"} | more
    options = compare.CompareOptions(str(folder / "a.jsonl"), str(folder / "b.txt"), **how)
    table = comparison_page.run_comparison(options, out).measures
    return table[table["tendency"] == "embedding"].set_index("measure")


def test_compare_embeds_random_documents_and_names_the_encoder(tmp_path):
    out = tmp_path / "out"
    found = compared(tmp_path, OTHERS[0.5], out, embedding_documents=30)
    assert found.loc["mmd", "p_value"] == 0.005
    mmd = found.loc["mmd"]
    assert mmd["baseline_low"] < mmd["baseline"] < mmd["value"]
    assert mmd["excess"] > 0
    assert np.isnan(found.loc["minimum_detectable_effect", "value"])  # halves of 15 documents
    assert found.loc["embedded", "value"] == found.loc["embedded_reference", "value"] == 30
    assert "30 of 60 documents of the reference embedded" in found.loc["mmd", "note"]
    long = np.mean([len(text) > LIMIT for text in OTHERS[0.5]])
    assert abs(found.loc["cut", "value"] - long) < 0.3
    page = (out / "compare.html").read_text()
    assert "Letters &amp; &lt;counts&gt; (SHA-256 000000000000…)" in page
    assert "Embeddings of documents" in page
    alike = compared(tmp_path, OTHERS[0.0])
    assert alike.loc["mmd", "p_value"] > 0.01
    assert 0 < alike.loc["minimum_detectable_effect", "value"] <= 1
    assert 0 < alike.loc["power_reached", "value"] <= 1
    assert alike.loc["mmd", "low"] == 0
    itself = compared(tmp_path, HUMAN)
    assert itself.loc["mmd", "value_all"] == 0
    assert itself.loc["mmd", "p_value"] == itself.loc["mmd", "p_adjusted"] == 1


@pytest.mark.parametrize(("pages", "verdict"), [(30, True), (10, False)])
def test_groups_of_the_reference_are_swapped_with_samples(pages, verdict, tmp_path):
    """Too few of them among the embedded documents give no verdict."""
    found = compared(tmp_path, OTHERS[0.5], pages=pages, permutations=39).loc["mmd"]
    assert (found["permuted"] == "swaps") == verdict
    assert (found["verdict"] == WITHOUT_VERDICT) != verdict
    assert math.isnan(found["p_value"]) != verdict


def test_wrong_numbers_of_documents_and_what_has_no_vectors_are_refused(tmp_path):
    for documents in (19, 4001):
        with pytest.raises(InputError, match=rf"embedding documents: documents: is {documents}"):
            compared(tmp_path, HUMAN, embedding_documents=documents)
    check_refused(r"word vectors: has no vectors of texts; name one of", encoder_of, Blind())
    check_refused(r"embedding nowhere: no such folder; give one, or", named_evaluator, "nowhere")
    check_refused(r"is no folder of sentence-transformers", named_evaluator, str(tmp_path))
    assert math.isnan(_Counter().encode(["xyz"])[0, 0])
