"""Judges: bits per byte of documents under a model.

Oracles: probabilities of a bigram model multiplied by hand, KS distances of these numbers by SciPy,
texts of one law and of another one, a text against itself, documents judged one by one.
"""

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import ks_2samp, norm

import beyond_perplexity
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.schemas.corpora import DOCUMENTS, TEXT_SAMPLES
from beyond_perplexity.storage.shards import ShardWriter
from beyond_perplexity.tendencies import judge
from beyond_perplexity.tendencies.definitions import TENDENCIES
from beyond_perplexity.tendencies.document_statistics import ABSENT, chosen_size
from beyond_perplexity.tendencies.measurement_options import MeasurementOptions
from beyond_perplexity.vocabulary import BOS, EOS, ClosedVocabulary
from tests.unit import huggingface_models, small_models
from tests.unit.evaluator_oracles import check_refused, run_script
from tests.unit.small_models import TINIEST, Fixed, TableModel, make

torch = pytest.importorskip("torch")
PreTrainedTokenizerFast = pytest.importorskip("transformers").PreTrainedTokenizerFast
ARPA = r"""\data\
ngram 1=5
ngram 2=4

\1-grams:
-99 <s> -0.1
-1.0 </s>
-0.5 aa -0.3
-0.6 é -0.2
-1.5 <unk>

\2-grams:
-0.2 <s> aa
-0.4 aa é
-0.7 é é
-0.9 é </s>

\end\
"""
WORDS = [f"{letter * n}" for letter in "abcd" for n in (1, 2, 3)]
QUICK = MeasurementOptions(permutations=99, bootstrap=0, monte_carlo=0)


def table(seed):
    """Draw bigram probabilities (V, V) of the words, with three special tokens that are none."""
    draws = np.random.default_rng(seed).dirichlet(np.full(len(WORDS), 0.4), len(WORDS) + 3)
    held = np.zeros((len(WORDS) + 3,) * 2)
    held[:, 3:] = 0.999 * draws
    held[:, 1] = 0.001
    return held


def written(law, n, rng, size=12):
    """Let a bigram model write n documents of a size."""
    found = np.zeros((n, size + 1), int)
    for place in range(size):
        cumulated = law[found[:, place], 3:].cumsum(1) / law[0, 3:].sum()
        found[:, place + 1] = 3 + (rng.random((n, 1)) > cumulated).sum(1).clip(max=len(WORDS) - 1)
    return [" ".join(WORDS[token - 3] for token in row[1:]) for row in found]


def bits(law, text, size):
    """Multiply the probabilities of the first words by hand."""
    words = text.split()[:size]
    ids = [0, *(WORDS.index(word) + 3 for word in words)]
    p = math.prod(law[one, other] for one, other in pairwise(ids))
    return -math.log2(p) / len(" ".join(words).encode())


LAW = table(0)
JUDGE = judge.open_judge(
    (TableModel(torch.tensor(LAW).log()[None]), ClosedVocabulary(WORDS, 0)), "cpu"
)


def rows(first, second, groups=(None, None), seed=0):
    reference = judge.JudgedText.of(first, JUDGE, None, "a")
    both = reference, judge.JudgedText.of(second, JUDGE, reference.size, "b")
    found = judge.judge_rows(both, groups, QUICK, seed, "")
    return {row.measure: row for row in found}


def test_the_value_of_a_document_is_its_probability_by_hand(tmp_path):
    """Back-off of an ARPA file: é has two bytes, x is unknown, and the end is not scored."""
    (tmp_path / "bigrams.arpa").write_text(ARPA)
    arpa = judge.open_judge(tmp_path / "bigrams.arpa", "cpu")
    assert arpa.title == "bigrams.arpa"
    texts = ["aa é é aa x more", "aa aa aa aa", "aa é", ""]
    found = judge.JudgedText.of(texts, arpa, 4, "texts")
    first = 0.2 + 0.4 + 0.7 + (0.2 + 0.5)  # <s> aa, aa é, é é, back off from é, aa
    second = 0.2 + 3 * (0.3 + 0.5)
    values = [x / math.log10(2) / 11 for x in (first, second)]
    np.testing.assert_array_equal(found.units, [*np.rint(np.array(values) * 1e4), ABSENT, ABSENT])
    assert (found.impossible, found.unknown) == (0, 0)
    longer = judge.JudgedText.of(texts, arpa, 5, "texts")
    with_unknown = (first + (0.3 + 1.5)) / math.log10(2) / 13
    assert longer.units.tolist() == [round(with_unknown * 1e4), ABSENT, ABSENT, ABSENT]
    assert longer.unknown == 1 / 5


def test_impossible_documents_are_counted_and_left_out(capsys):
    model = Fixed([0, 0.1, 0, 0.9, 0.0])
    zero = judge.open_judge((model, ClosedVocabulary(["yes", "no"], 0)), "cpu")
    found = judge.JudgedText.of(["yes yes", "yes no", "no no", "yes"], zero, 2, "file.txt")
    value = round(-2 * math.log2(0.9) / 7 * 1e4)
    assert found.units.tolist() == [value, ABSENT, ABSENT, ABSENT]
    assert found.impossible == 2
    said = "2 of 3 documents of file.txt are impossible under it (probability 0) and are left out"
    assert said in capsys.readouterr().err
    found = judge.JudgedText.of(["no no"] * 30, zero, 2, "file.txt")
    assert judge.judge_rows((found, found), (None, None), QUICK, 0, "") == []  # nothing to compare


def test_values_do_not_depend_on_what_is_judged_together():
    texts = [text[: 7 + 3 * i] for i, text in enumerate(written(LAW, 40, np.random.default_rng(1)))]
    whole = judge.JudgedText.of(texts, JUDGE, 4, "texts").units
    alone = [judge.JudgedText.of([text], JUDGE, 4, "texts").units[0] for text in texts]
    assert 10 < np.sum(whole != ABSENT) < 40
    np.testing.assert_array_equal(whole, alone)


@pytest.mark.parametrize(("lengths", "size"), [([9] * 5 + [70] * 5, 64), ([9, 9, 70], 8), ([3], 8)])
def test_the_size_is_the_largest_that_half_of_the_documents_have(lengths, size):
    assert chosen_size(TENDENCIES["judge"].sizes, np.array(lengths)) == size


def test_two_sample_sets_of_one_judge_keep_the_level_and_people_differ():
    """Text of the judge beside its own and beside text of another law, a control that stars.

    30 pairs at .05: more than 5 that differ have a probability of .003.
    """
    level, differing, human = [], 0, table(1)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        first, second = (written(LAW, 40, rng) for _ in range(2))
        level.append(rows(first, second, seed=seed)["ks"].p_value)
        if seed < 3:
            found = rows(written(human, 40, rng), second, seed=seed)
            differing += found["ks"].p_value == 0.01 == found["mean_difference"].p_value
    assert np.sum(np.array(level) <= 0.05) <= 5
    assert 0.25 < np.mean(level) < 0.75
    assert differing == 3


def test_groups_are_swapped_and_a_text_is_like_itself():
    rng = np.random.default_rng(2)
    texts, groups = written(LAW, 120, rng), np.repeat(np.arange(40), 3)
    same = rows(texts, texts)
    assert (same["ks"].value_all, same["ks"].p_value, same["mean_difference"].p_value) == (0, 1, 1)
    grouped = rows(texts, written(table(1), 40, rng), (groups, None))["ks"]
    assert (grouped.permuted, grouped.p_value) == ("swaps", 0.01)
    assert grouped.baseline_low < grouped.baseline < grouped.value


@pytest.fixture(scope="module")
def both():
    rng = np.random.default_rng(3)
    return written(table(1), 60, rng), written(LAW, 50, rng)


def compared(reference, samples, **more):
    model = TableModel(torch.tensor(LAW).log()[None]), ClosedVocabulary(WORDS, 0)
    how = {"tokenized": True, "permutations": 99, "bootstrap": 50, "judge": model, **more}
    found = beyond_perplexity.compare(reference, samples, **how)
    return found, found.table[found.table["tendency"] == "judge"].set_index("measure")


def test_compare_has_a_row_of_the_judge_and_says_what_it_is(both, tmp_path):
    found, own = compared(*both, out=tmp_path / "out")
    values = [[round(bits(LAW, text, 8), 4) for text in texts] for texts in both]
    assert own.loc["mean_reference", "value"] == pytest.approx(np.mean(values[0]), abs=1e-4)
    assert own.loc["mean", "value"] == pytest.approx(np.mean(values[1]), abs=1e-4)
    ks = own.loc["ks"]
    assert ks["value_all"] == pytest.approx(ks_2samp(*values).statistic)
    assert own.loc["mean", "low"] < own.loc["mean", "value"] < own.loc["mean", "high"]
    assert (ks["verdict"], ks["family"]) == ("differs", own.loc["mean_difference", "family"])
    for said in (
        "cut to 8 tokens: 60 of 60",
        "under TableModel: neither larger nor smaller",
        "own",
    ):
        assert said in ks["note"]
    assert "|judge:TableModel-1000|" in found.summary["signature"]
    page = (tmp_path / "out" / "compare.html").read_text()
    assert "TableModel; at most 1,000 documents of each text" in page
    few = compared(*both, judge_documents=30)[1]
    assert "cut to 8 tokens: 30 of 30 documents of the reference and 30" in few.loc["ks", "note"]
    _, none = compared(*both, judge=None)
    assert none.empty


def test_answers_to_prompts_are_judged_within_their_prompts(both):
    """People answered twice, so that the baseline is of two people."""
    human, model = both
    pairs = [
        {"prompt": str(i), "human": human[2 * i : 2 * i + 2], "model": model[i]} for i in range(30)
    ]
    _, own = compared(None, None, pairs=pairs)
    assert own.loc["ks", "permuted"] == "prompts"
    assert own.loc["ks", "p_value"] == 0.01
    assert own.loc["ks", "baseline"] < own.loc["ks", "value"]
    single = [{**row, "human": row["human"][0]} for row in pairs]
    labels = compared(None, None, pairs=single)[1].loc["ks"]
    assert 0 < labels["baseline"] < labels["value"]


def test_a_text_without_a_long_document_has_no_row_and_the_reason(both, capsys):
    found, own = compared(both[0], ["a bb"] * 30)
    assert own.empty
    said = "warning: judge TableModel: no document of samples has 8 tokens: nothing is compared"
    assert said in capsys.readouterr().err
    assert "sensitivity" in found.tables


@pytest.mark.parametrize("size", [1, 2])
def test_minimum_detectable_effects_stand_beside_the_judge(size, tmp_path):
    """Oracle: the textbook's effect of a difference of means, of documents that stand alone."""
    rng = np.random.default_rng(4)
    texts, samples = written(LAW, 200, rng), written(LAW, 50, rng)
    out = tmp_path / "out"
    found, own = compared(texts, samples, group_size=size, out=out)
    held = found.table_of("sensitivity").set_index("measure")
    assert (set(held["tendency"]), set(held["n"])) == ({"judge"}, {80})  # 2 * 200 * 50 / 250
    assert list(held.index) == ["ks", "mean_difference"]
    assert held["groups"].tolist() == [size > 1] * 2
    values = np.array([bits(LAW, text, 8) for text in texts])
    wanted = (norm.isf(0.0025) + norm.isf(0.2)) * values.std() * math.sqrt(2 / 80)
    effect = held.loc["mean_difference", "minimum_detectable_effect"]
    assert effect == pytest.approx(wanted, rel=0.25 if size > 1 else 0.2)  # that of one half
    assert effect / held.loc["mean_difference", "relative"] == pytest.approx(
        own.loc["mean_reference", "value"], rel=0.05
    )
    assert 0.4 < held["power_reached"].min() < held["power_reached"].max() < 1
    assert "judge,ks" in (out / "sensitivity.csv").read_text()
    told = "of whole groups" if size > 1 else "independent documents, which the tests permute"
    assert told in (out / "compare.html").read_text()
    untested = compared(texts[:40], samples, permutations=0)[0]
    assert "sensitivity" not in untested.tables


def test_a_judge_of_hugging_face_gives_what_transformers_does(tmp_path):
    """Oracle: the loss of transformers, times its tokens, over the bytes of each text."""
    model = huggingface_models.make_gpt2(tmp_path / "gpt2")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tmp_path / "gpt2")
    words = [*" ".join(huggingface_models.TEXTS).split(), "naïve", "…", "\N{SNOWMAN}"]
    rng = np.random.default_rng(5)
    human, samples = ([" ".join(rng.choice(words, 9)) for _ in range(70)] for _ in range(2))
    expected = []
    for text in human:
        cut = " ".join(text.split()[:8])
        ids = torch.tensor([[0, *tokenizer(cut, add_special_tokens=False)["input_ids"]]])
        with torch.no_grad():
            nats = model(ids, labels=ids).loss.item() * (ids.shape[1] - 1)
        expected.append(nats / math.log(2) / len(cut.encode()))
    opened = judge.open_judge(str(tmp_path / "gpt2"), "cpu")
    scores = opened.score([" ".join(text.split()[:8]) for text in human])
    both = zip(scores, human, strict=True)
    found = [
        -score.log_prob / math.log(2) / len(" ".join(text.split()[:8]).encode())
        for score, text in both
    ]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    given = {"judge": tmp_path / "gpt2", "bootstrap": 0}
    compared_texts, own = compared(human, samples, **given)
    assert own.loc["mean_reference", "value"] == pytest.approx(np.mean(expected), abs=1e-4)
    assert "under gpt2: neither larger" in own.loc["ks", "note"]
    assert compared_texts.table_of("sensitivity")["minimum_detectable_effect"].notna().all()
    pairs = [{"prompt": str(i), "human": x, "model": x} for i, x in enumerate(human)]
    _, same = compared(None, None, pairs=pairs, **given)
    assert (same.loc["ks", "value"], same.loc["ks", "p_value"]) == (0, 1)
    assert (same.loc["mean_difference", "value"], same.loc["mean_difference", "p_value"]) == (0, 1)


def test_judges_that_are_none_are_refused_in_a_line(both, tmp_path):
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "config.json").write_text('{"model_type": "gpt2"}')
    for wrong, why in (
        ("", "judge: give a path, or a model in memory and its tokenizer as a tuple"),
        (str(tmp_path / "without"), "judge: .*without: has no weights"),
        (str(tmp_path / "nowhere"), "judge: .*nowhere: no such folder"),
        (str(tmp_path), "judge: .* is no model folder"),
        (5, "judge: give a path, or a model in memory and its tokenizer as a tuple"),
        ((abs, None), "judge: tokenizer: is missing"),
    ):
        check_refused(why, compared, *both, judge=wrong)
    check_refused("judge documents: has no effect", compared, *both, judge=None, judge_documents=30)
    broken = TableModel(torch.full((1, 15, 15), math.nan))
    given = judge.open_judge((broken, ClosedVocabulary(WORDS, 0)), "cpu")
    check_refused("log-probability NaN", judge.JudgedText.of, both[0], given, 8, "human")


def plainly_drawn(model, n, words):
    """Draw n texts token by token: nats a byte of their first words, NaN for short ones."""
    generator, names = torch.Generator().manual_seed(5), ["", "", "", *WORDS]
    tokens = torch.full((n, 1), BOS)
    with torch.inference_mode():
        for _ in range(words):
            probabilities = model(tokens)[:, -1].softmax(-1)
            tokens = torch.cat(
                [tokens, torch.multinomial(probabilities, 1, generator=generator)], 1
            )
        scores = model(tokens[:, :-1]).log_softmax(-1).gather(-1, tokens[:, 1:, None]).sum((1, 2))
    sizes = np.array([len(" ".join(names[t] for t in row[1:])) for row in tokens.tolist()])
    ended = (tokens[:, 1:] == EOS).any(1).numpy()
    return np.where(ended, np.nan, -scores.numpy() / sizes)


def documents(path, schema, **columns):
    n = len(next(iter(columns.values())))
    held = {name: columns.get(name, [None] * n) for name in schema.names}
    with ShardWriter(path, schema, {}) as writer:
        writer.write({name: pa.array(x, schema.field(name).type) for name, x in held.items()})
    return path


def test_a_judge_of_a_run_scores_the_reference_what_was_trained_on_and_samples(tmp_path, both):
    """The files of two jobs, and their rows: what `judge_rows` has of texts in memory."""
    model = make("lstm", TINIEST, size=15, noise=1.0)
    save_model(tmp_path / "lstm", model, ClosedVocabulary(WORDS, 0), {})
    texts = both[0] + both[0][:25]
    split = ["test"] * 60 + ["train"] * 25
    titles = [str(i // 2) for i in range(60)] + ["none"] * 25
    more = {"doc_id": range(85), "text": texts, "split": split, "title": titles}
    human = documents(tmp_path / "documents.parquet", DOCUMENTS, n_tokens=[12] * 85, **more)
    written = documents(
        tmp_path / "00000.parquet",
        TEXT_SAMPLES,
        doc_id=range(50),
        text=both[1],
        finished=[True] * 50,
    )
    given = ["--model", tmp_path / "lstm", "--seed", 3, "--device", "cpu"]
    files = tmp_path / "reference.parquet", tmp_path / "samples.parquet"
    run_script(
        "judge", *given, "--documents", human, "--split", "test", "--training-split", "train",
        *("--group-column", "title", "--most", 60, "--output", files[0]),
    )  # fmt: skip
    how = ["--documents", written, "--like", files[0], "--most", 40, "--output", files[1]]
    run_script("judge", *given, *how)
    opened = judge.open_judge(tmp_path / "lstm", "cpu")
    (reference, trained, own), groups = judge.read_judged(files[0])
    whole = judge.JudgedText.of(both[0], opened, 8, "")
    np.testing.assert_array_equal(reference.units, whole.units)
    np.testing.assert_array_equal(np.sort(trained.units), np.sort(whole.units[:25]))
    np.testing.assert_array_equal(groups, np.arange(60) // 2)
    (samples,), none = judge.read_judged(files[1])
    assert none is None
    assert len(samples.units) == 40
    assert set(samples.units) <= set(judge.JudgedText.of(both[1], opened, 8, "").units)
    found = {row.measure: row for row in judge.rows_of_files(files, "lstm/beam", QUICK, 0)}
    expected = judge.judge_rows((reference, samples), (groups, None), QUICK, 0, "")
    assert all(found[row.measure].value == row.value for row in expected)
    assert "a control: the judge's own samples" in found["ks"].fact
    assert found["mean_training"].value == pytest.approx(np.mean(whole.units[:25]) * 1e-4)
    # Ancestral samples of the judge, as a loop without an engine draws them.
    drawn = plainly_drawn(model, 4000, 8) / math.log(2)
    kept = own.units != ABSENT
    assert len(kept) == 60
    assert abs(kept.mean() - np.mean(~np.isnan(drawn))) < 4 * 0.5 / 60**0.5
    error = np.nanstd(drawn) / kept.sum() ** 0.5
    assert abs(found["mean_own_samples"].value - np.nanmean(drawn)) < 4 * error
    assert found["mean_own_samples"].value == pytest.approx(np.nanmean(own.bits_per_byte))
    other = judge.rows_of_files(files, "gru/beam", QUICK, 0)
    assert "lstm's own samples are a control" in other[-3].fact
    assert judge.rows_of_files([], "gru/beam", QUICK, 0) == []


@pytest.mark.parametrize(
    ("known", "context", "trained", "read", "controls"),
    [
        (WORDS, 8, 20, False, {"mean_training", "mean_own_samples"}),
        (WORDS, 8, 0, False, {"mean_own_samples"}),  # not taken for the training split
        (WORDS, 6, 20, False, {"mean_training"}),  # cut before they have the size, 8 words
        (WORDS[:6], 8, 20, False, {"mean_training"}),  # <unk> beside words that are unknown
        (WORDS[:6], 8, 20, True, {"mean_training", "mean_own_samples"}),  # documents have it, too
    ],
)
def test_own_samples_stand_beside_where_they_are_a_control(
    tmp_path, both, known, context, trained, read, controls
):
    """Nowhere else."""
    vocabulary = ClosedVocabulary(known, 5)
    sizes = {**small_models.FAMILIES["transformer"], "context_length": context}
    save_model(tmp_path / "m", make("transformer", sizes, vocabulary.size), vocabulary, {})
    vocabulary.save(tmp_path / "vocabulary.json")
    texts, split = both[0] + both[0][:trained], ["test"] * 60 + ["train"] * trained
    more = {"doc_id": range(60 + trained), "text": texts, "split": split}
    n_tokens = [12] * len(texts)
    human = documents(tmp_path / "documents.parquet", DOCUMENTS, n_tokens=n_tokens, **more)
    given = ["--model", tmp_path / "m", "--seed", 3, "--device", "cpu", "--most", 60]
    given += ["--vocabulary", tmp_path / "vocabulary.json"] * read
    found = tmp_path / "reference.parquet"
    of = ["--split", "test", "--training-split", "train", "--output", found]
    run_script("judge", *given, "--documents", human, *of)
    rows = {row.measure: row for row in judge.rows_of_files([found] * 2, "lstm/beam", QUICK, 0)}
    assert {"mean_training", "mean_own_samples"} & {*rows} == controls
    assert not controls - {"mean_training"} or "of the judge" in rows["mean_own_samples"].fact
