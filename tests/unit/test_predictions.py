"""What models predict in sentences: the argmax words, draws, continuations, unrelated sentences.

Oracles: a plain loop, a document and a step at a time; shares of draws on a grid; other batches,
blocks and orders bit for bit; texts by hand.
"""

import json
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch

from beyond_perplexity.corpus.sentences import CutDocument, find_partners, sentence_item, take_units
from beyond_perplexity.models import huggingface_bring, kneser_ney, likelihoods, trigram
from beyond_perplexity.models.registry import build, save_model
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas.semantics import PREDICTIONS
from beyond_perplexity.semantics import predictions
from beyond_perplexity.semantics.measures import ContinuationOptions, PredictionOptions
from beyond_perplexity.semantics.predictions import predict_sentences, predict_tokens
from beyond_perplexity.vocabulary import BOS, EOS, UNK, BPEVocabulary, ClosedVocabulary, Vocabulary
from scripts import predict_words
from tests.unit.evaluator_oracles import check_refusals, check_refused, run_script
from tests.unit.huggingface_models import MAKERS
from tests.unit.small_models import TableModel
from tests.unit.test_contrastive import VOCABULARY, random_units, write_documents

SMALL, ATTENTIVE = {"embedding_size": 16, "hidden_size": 24}, {"width": 32, "heads": 4, "layers": 2}
SIZES = {"lstm": SMALL | {"layers": 2}, "gru": SMALL, "rnn": SMALL | {"classes": 5}}
SIZES |= dict.fromkeys(("transformer", "transformer-adaptive-softmax"), ATTENTIVE)
SIZES |= {"cnn": {"width": 32}}
COUNTED = {"trigram": trigram.Trigram, "kneser-ney": kneser_ney.KneserNey}


def made(family, **architecture):
    """Make a small model with random weights large enough to prefer some words, or counts."""
    if family in COUNTED:
        texts = [unit.sentences for unit in random_units(30, 9, 12, types=12)]
        ids = VOCABULARY.encode([" ".join(w for words in text for w in words) for text in texts])
        return COUNTED[family].fit([ids], VOCABULARY.size)
    torch.manual_seed(1)
    model = build({"family": family, "architecture": {**SIZES[family], **architecture}}, 43).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4.0 if family in ("lstm", "gru") else 2.0)
    return model


def words_of(unit):
    return " ".join(word for words in unit.sentences for word in words)


@torch.no_grad()
def loop(model, ids, numbers):
    """Predict a document a step at a time, draws by running sums of float64 probabilities."""
    best, drawn, log_probs = [], [], []
    state, token = model.initial_state(1, len(ids)), BOS
    for place, true in enumerate(ids.tolist()):
        logits, state = model.step(torch.tensor([token]), state)
        row = logits[0].double()
        token = true
        if row.max() == -torch.inf:
            best.append(UNK)
            drawn.append([UNK] * numbers.shape[1])
            log_probs.append(-np.inf)
            continue
        best.append(int(row.numpy().argmax()))
        sums = row.softmax(0).cumsum(0)
        drawn.append([int(torch.searchsorted(sums, u, right=True)) for u in numbers[place]])
        log_probs.append(float(row.log_softmax(0)[true]))
    return best, drawn, log_probs


@pytest.mark.parametrize("family", [*SIZES, *COUNTED])
def test_predictions_are_those_of_a_plain_loop(family):
    model = made(family)
    texts = VOCABULARY.encode([words_of(unit) for unit in random_units(12, 2, 14)])
    rng = np.random.default_rng(0)
    numbers = [rng.random((len(ids), 4)) for ids in texts]
    found = predict_tokens(model, texts, numbers)
    for ids, given, words in zip(texts, numbers, found, strict=True):
        best, drawn, log_probs = loop(model, ids, given)
        assert (words.best.tolist(), words.drawn.tolist()) == (best, drawn)
        assert np.allclose(words.log_prob, log_probs, rtol=1e-4, atol=1e-5)
    if family != "trigram":  # which has nothing to say after words that it has not seen
        assert len({token for words in found for token in words.best.tolist()}) > 3


@pytest.mark.parametrize("family", ["gru", "transformer-adaptive-softmax", "kneser-ney"])
def test_shares_of_draws_are_probabilities(family):
    """Oracle: of K numbers on a grid, K p lead to a word of probability p, give or take one."""
    model, count = made(family), 400
    (ids,) = VOCABULARY.encode([words_of(random_units(1, 4, 20)[0])])
    grid = np.tile((np.arange(count) + 0.5) / count, (len(ids), 1))
    (found,) = predict_tokens(model, [ids], [grid])
    hits = (found.drawn == ids[:, None]).sum(1)
    assert np.abs(hits - count * np.exp(found.log_prob)).max() <= 1.01
    # so that the expected share of right words is the mean probability
    assert hits.sum() / grid.size == pytest.approx(np.exp(found.log_prob).mean(), abs=1 / count)


@pytest.mark.parametrize("family", ["lstm", "transformer", "trigram"])
def test_log_probabilities_are_those_of_the_perplexity(family):
    """Oracle: `models.likelihoods`, less the end of the document, by the model's own step."""
    model = made(family, **({"context_length": 10} if family == "transformer" else {}))
    units = random_units(10, 6, 20)
    texts = VOCABULARY.encode([words_of(unit) for unit in units])
    found = predict_tokens(model, texts, [np.empty((len(ids), 0)) for ids in texts])
    scores = likelihoods.score_documents(model, VOCABULARY, map(words_of, units))
    for ids, words, score in zip(texts, found, scores, strict=True):
        sizes = (10, 5) if family == "transformer" else (None, None)
        windows = list(likelihoods.cut_windows(0, ids, *sizes))
        with torch.no_grad():
            last = model(torch.from_numpy(windows[-1].tokens[None, :-1]))[0, -1].double()
        end = float(last.log_softmax(0)[EOS]) if last.max() > -torch.inf else -np.inf
        assert words.log_prob.sum() + end == pytest.approx(score.log_prob, rel=1e-5)


def test_beyond_the_context_predictions_are_those_of_windows():
    """Oracle: each window by itself; C positions at first, then half as many at a time."""
    model = made("transformer", context_length=10)
    texts = VOCABULARY.encode([words_of(unit) for unit in random_units(12, 5, 30)])
    found = predict_tokens(model, texts, [np.empty((len(ids), 0)) for ids in texts])
    assert max(map(len, texts)) > 40
    for ids, words in zip(texts, found, strict=True):
        whole = [BOS, *ids.tolist()]
        for place in range(len(ids)):
            block = max(0, -(-(place + 1 - 10) // 5))  # the window that predicts it
            end = min(10 + 5 * block, len(ids) + 1)
            with torch.no_grad():
                logits = model(torch.tensor([whole[max(0, end - 10) : place + 1]]))[0, -1]
            assert words.best[place] == int(logits.argmax())


def columns(model, units, vocabulary=VOCABULARY, prefix=3, decoding="argmax", positions=2048):
    asked = None if prefix is None else ContinuationOptions(prefix, decoding)
    options = PredictionOptions(2, asked)
    found = predict_sentences(model, vocabulary, units, options, seed=5, batch_positions=positions)
    held = [[tuple(v) if isinstance(v, list) else v for v in column] for column in found.values()]
    return list(zip(*held, strict=True))


@pytest.mark.parametrize("decoding", ["argmax", "sample"])
@pytest.mark.parametrize("family", ["lstm", "transformer-adaptive-softmax", "cnn", "kneser-ney"])
def test_predictions_do_not_depend_on_their_company(family, decoding, one_thread):
    """Oracle: the same documents in small batches, backwards, and one by one; bit for bit."""
    model, units = made(family), random_units(40, 3, 40)
    whole = columns(model, units, decoding=decoding)
    assert columns(model, units, decoding=decoding, positions=16) == whole
    backwards = columns(model, units[::-1], decoding=decoding)
    assert sorted(backwards, key=str) == sorted(whole, key=str)
    alone = [row for unit in units[:6] for row in columns(model, [unit], decoding=decoding)]
    assert alone == whole[: len(alone)]


def test_rows_of_sentences_and_more_samples_leave_the_first_as_they_are():
    """Oracle: the sentences themselves, and the plain loop cut into them."""
    names = ["<s>", "</s>", "<unk>", *(f"w{k}" for k in range(40))]
    model, units = made("gru"), random_units(8, 1, 9)
    rows = predict_sentences(model, VOCABULARY, units, PredictionOptions(2), seed=5)
    assert {*rows, "split", "partner"} == {*PREDICTIONS.names}
    expected = [(unit, place) for unit in units for place in range(len(unit.sentences))]
    assert rows["unit_id"] == [unit.unit_id for unit, _ in expected]
    assert rows["group"] == [unit.group for unit, _ in expected]
    assert rows["sentence"] == [place for _, place in expected]
    assert rows["continued"] == [None] * len(expected)
    assert all(rows["aligned"])
    for number, (unit, place) in enumerate(expected):
        words = unit.sentences[place]
        assert rows["target"][number] == " ".join(words)
        (ids,) = VOCABULARY.encode([words_of(unit)])
        start = sum(len(other) for other in unit.sentences[:place])
        part = slice(start, start + len(words))
        item = sentence_item(unit.unit_id, place)
        given = np.zeros((len(ids), 2))
        for draw in range(2):
            given[part, draw] = stream(5, f"semantics/sample/{draw}", item).random(len(words))
        best, drawn, log_probs = loop(model, ids, given)
        assert rows["predicted"][number] == " ".join(names[k] for k in best[part])
        for draw, text in enumerate(rows["samples"][number]):
            assert text == " ".join(names[row[draw]] for row in drawn[part])
        assert rows["log_prob"][number] == pytest.approx(sum(log_probs[part]), rel=1e-4)
        assert rows["words"][number] == len(words)
        assert rows["unknown_target"][number] == sum(word not in names for word in words)
        assert rows["unknown_predicted"][number] == best[part].count(UNK)
    model, units = made("gru"), random_units(8)
    sizes = map(PredictionOptions, (0, 1, 3))
    given = model, VOCABULARY, units
    none, few, many = (predict_sentences(*given, size, seed=5)["samples"] for size in sizes)
    assert [texts[:1] for texts in many] == few
    assert len({tuple(texts) for texts in many}) > 8
    assert none == [[] for _ in few]


def test_special_tokens_are_printed_and_a_broken_model_is_named():
    ids = [np.array(row, np.int64) for row in ([3, 1, 2, 4], [1], [], [5, 6], [2, 2])]
    texts = ["w0 </s> <unk> w1", "</s>", "", "w2 w3", "<unk> <unk>"]
    assert predictions.print_tokens(VOCABULARY, ids) == texts
    parts = BPEVocabulary.build([["low lower lowest"]], 270)
    (held,) = parts.encode(["low lower"])
    assert predictions.print_tokens(parts, [np.concatenate([[EOS], held])]) == ["</s> low lower"]
    table = torch.full((2, 43, 43), torch.nan)
    check_refused("the log-probability NaN", columns, TableModel(table), random_units(2))


def test_after_words_that_were_not_seen_a_trigram_says_unknown_and_words_stay_apart():
    """A word of the text that is written like a special token is unknown, and stays in the text."""
    model = trigram.Trigram.fit([VOCABULARY.encode(["w1 w2 w3"])], VOCABULARY.size)
    units = [CutDocument(0, None, [["w1", "w2"], ["w9", "w9", "w9"]])]
    (first, second) = columns(model, units, prefix=1)
    names = [name for name in PREDICTIONS.names if name not in ("split", "partner")]
    row = dict(zip(names, second, strict=True))
    assert dict(zip(names, first, strict=True))["predicted"] == "w1 w2"
    assert (row["predicted"], row["samples"]) == ("w3 <unk> <unk>", ("w3 <unk> <unk>",) * 2)
    assert (row["continued"], row["given"]) == ("w9 <unk> <unk>", 1)
    assert (row["unknown_predicted"], row["log_prob"]) == (2, -np.inf)
    vocabulary = ClosedVocabulary(["a"], 1)
    model = TableModel.random(vocabulary.size)
    units = [CutDocument(0, None, [["<unk>", "</s>", "a"]])]
    rows = predict_sentences(model, vocabulary, units, PredictionOptions(1), seed=1)
    assert (rows["target"], rows["unknown_target"]) == (["<unk> </s> a"], [2])
    assert len(str(rows["predicted"][0]).split()) == 3


@pytest.mark.parametrize("kind", ["bpe", *MAKERS])
def test_pieces_of_a_text_are_its_tokens(kind, tmp_path):
    """Oracle: the tokens of the whole text, and each piece decoded."""
    if kind == "bpe":
        vocabulary: Vocabulary = BPEVocabulary.build([["the lowest cat sat on a rose"]], 290)
    else:
        MAKERS[kind](tmp_path)
        _, vocabulary, _ = huggingface_bring.bring({"path": str(tmp_path)}, None)
    texts = [["the cat sat .", "the lowest rose \u00e9\u00e8 is", "a", "cat"], ["low"]]
    found = vocabulary.encode_pieces(texts)
    whole = vocabulary.encode([" ".join(text) for text in texts])
    for text, pieces, ids in zip(texts, found, whole, strict=True):
        assert (np.concatenate(pieces).tolist(), vocabulary.decode(pieces)) == (ids.tolist(), text)


@pytest.mark.parametrize("kind", ["bpe", *MAKERS])
def test_models_of_parts_of_words(kind, tmp_path, one_thread):
    """Oracle: the plain loop over the tokens of the document; beyond a context, other batches."""
    units = random_units(20, 3, 30)
    if kind == "bpe":
        vocabulary: Vocabulary = BPEVocabulary.build([map(words_of, units)], 300)
        torch.manual_seed(1)
        config = {"family": "lstm", "architecture": SIZES["lstm"]}
        model = build(config, vocabulary.size, open_vocabulary=True).eval()
    else:
        MAKERS[kind](tmp_path)
        model, vocabulary, _ = huggingface_bring.bring({"path": str(tmp_path)}, None)
        model.eval()
    rows = columns(model, units, vocabulary)
    assert columns(model, units, vocabulary, positions=16) == rows
    alone = [row for unit in units[:5] for row in columns(model, [unit], vocabulary)]
    assert alone == rows[: len(alone)]
    assert not any(row[-1] for row in rows)
    short = [unit for unit in units if len(vocabulary.encode([words_of(unit)])[0]) < 60]
    for unit in short[:4]:
        (ids,) = vocabulary.encode([words_of(unit)])
        best, _, log_probs = loop(model, ids, np.zeros((len(ids), 0)))
        pieces = vocabulary.encode_pieces([[" ".join(words) for words in unit.sentences]])[0]
        cuts = np.cumsum([0, *map(len, pieces)])
        held = [row for row in rows if row[0] == unit.unit_id]
        for start, end, row in zip(cuts, cuts[1:], held, strict=False):
            assert row[5] == predictions.print_tokens(vocabulary, [np.array(best[start:end])])[0]
            assert row[11] == pytest.approx(sum(log_probs[start:end]), rel=1e-4)


@torch.no_grad()
def written(model, ids, wanted, numbers):
    """Continue a prompt a step at a time, the whole text read anew each time."""
    text = [BOS, *ids]
    for place in range(wanted):
        row = model(torch.tensor([text]))[0, -1].double()
        row[EOS] = -torch.inf
        if numbers is None:
            text.append(int(row.argmax()))
        else:
            sums = row.softmax(0).cumsum(0)
            text.append(int(torch.searchsorted(sums, numbers[place], right=True)))
    return text[1 + len(ids) :]


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("family", ["lstm", "transformer", "cnn", "kneser-ney"])
def test_continuations_are_those_of_a_plain_loop(family, sampled):
    model = made(family)
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 30, 20)
    prompts = []
    for item, size in enumerate(sizes):
        ids = rng.integers(3, 43, size).astype(np.int32)
        prompts.append(predictions.Prompt(ids, int(rng.integers(1, 12)), item))
    found = predictions.continue_prompts(model, prompts, sampled, seed=3)
    for prompt, ids in zip(prompts, found, strict=True):
        numbers = stream(3, "semantics/continuation", prompt.item).random(prompt.wanted)
        expected = written(model, prompt.ids, prompt.wanted, numbers if sampled else None)
        assert ids.tolist() == expected
        assert EOS not in expected


def test_continuations_read_the_end_of_a_document_and_begin_as_sentences_do():
    """Oracle: the loop on as many of the last tokens as leave room for what is written."""
    model = made("transformer", context_length=10)
    ids = np.arange(3, 30, dtype=np.int32)
    prompts = [predictions.Prompt(ids, wanted, 0) for wanted in (3, 10, 11)]
    short, long, none = predictions.continue_prompts(model, prompts, False, seed=3)
    text = [*ids.tolist()]
    with torch.no_grad():
        for size in (8, 9, 10):
            text.append(int(model(torch.tensor([text[-size:]]))[0, -1, EOS + 1 :].argmax()) + 2)
    assert short.tolist() == text[-3:]
    assert (len(long), none) == (10, None)
    rows = columns(made("gru"), random_units(20, 7, 12))
    for row in rows:
        target, continued = str(row[4]).split(), row[7]
        if len(target) <= 3:
            assert continued is None
            continue
        words = str(continued).split()
        assert len(words) == len(target)
        known = [word if word in VOCABULARY.describe()["words"] else "<unk>" for word in target]
        assert words[:3] == known[:3]
    assert len({row[7] for row in rows}) > 10


def test_partners_are_of_other_pages_as_long_and_do_not_depend_on_blocks(tmp_path):
    """Oracle: the titles and lengths of the documents that hold each partner."""
    rng = np.random.default_rng(0)
    texts = [
        " . ".join(" ".join(f"w{number}x{k}" for k in range(n)) for n in rng.integers(2, 9, 3))
        for number in range(90)
    ]
    path = write_documents(tmp_path / "documents.parquet", texts)
    units = take_units(path, "test", 0, 400, seed=1)
    found = find_partners(units, path, "test", seed=1)
    lengths = []
    for unit, partners in zip(units, found, strict=True):
        for words, partner in zip(unit.sentences, partners, strict=True):
            assert int(partner.split("x")[0].removeprefix("w")) // 3 != unit.unit_id // 3
            lengths.append(len(partner.split()) - len(words))
    assert lengths.count(0) / len(lengths) > 0.98
    distinct = {text for partners in found for text in partners}
    assert len(distinct) > len(lengths) / 2
    texts = [f"a{number} . b{number} c ." for number in range(150)]
    path = write_documents(tmp_path / "documents.parquet", texts)
    whole = find_partners(take_units(path, "test", 0, 200, seed=1), path, "test", seed=1)
    parts = []
    for first in range(0, 200, 30):
        units = take_units(path, "test", first, min(30, 200 - first), seed=1)
        parts += find_partners(units, path, "test", seed=1)
    assert parts == whole
    other = find_partners(take_units(path, "test", 0, 200, seed=2), path, "test", seed=2)
    assert other != whole
    alone = write_documents(tmp_path / "alone.parquet", ["a b . c .", "d e ."])  # of one page
    units = take_units(alone, "test", 0, 9, seed=1)
    assert find_partners(units, alone, "test", seed=1) == [[None] * len(u.sentences) for u in units]
    same = write_documents(tmp_path / "same.parquet", ["a b ."] * 6)
    units = take_units(same, "test", 0, 9, seed=1)
    assert find_partners(units, same, "test", seed=1) == [[None]] * 6
    assert find_partners([], same, "test", seed=1) == []


def command(home, name, *flags):
    """Run the command on the documents and the model in a folder; return what it wrote."""
    given = ["--model", home / "model", "--documents", home / "documents.parquet", "--seed", 1]
    given += ["--splits", "valid", "test", "--output", home / name, *flags]
    with patch("scripts.predict_words.DOCUMENTS_AT_ONCE", 7):
        run_script("predict_words", *given)
    return pq.read_table(home / name)


@pytest.fixture
def home(tmp_path):
    units = random_units(60, 4, 12)
    texts = [" . ".join(" ".join(words) for words in unit.sentences) for unit in units]
    write_documents(tmp_path / "documents.parquet", texts, ["valid", "test", "train"] * 20)
    save_model(tmp_path / "model", made("gru"), VOCABULARY, {})
    return tmp_path


def test_shards_are_the_whole(home, one_thread):
    """Oracle: the sentences of one shard, whatever the sizes of shards."""
    options = ["--options", json.dumps({"samples": 2, "continuation": {"prefix": 2}})]
    whole = command(home, "whole", "--sentences", 0, 30, "--limit", 30, *options)
    assert whole.schema.equals(PREDICTIONS)
    assert whole.num_rows > 50
    assert whole["group"].null_count == whole.num_rows
    cuts = [(0, 8), (8, 8), (16, 8), (24, 6, "--limit", 30)]
    parts = [command(home, f"{cut[0]}", "--sentences", *cut, *options) for cut in cuts]
    for split in ("valid", "test"):
        held = [part.filter(pc.field("split") == split) for part in (whole, *parts)]
        assert pa.concat_tables(held[1:]).to_pylist() == held[0].to_pylist()
    assert set(whole["split"].to_pylist()) == {"valid", "test"}


def test_documents_of_a_page_are_a_group_and_wrong_options_are_named(home):
    flags = ("--sentences", 0, 9, "--split-unit", "page", "--whole")
    found = command(home, "pages", *flags)
    groups = dict(zip(found["unit_id"].to_pylist(), found["group"].to_pylist(), strict=True))
    assert groups == {number: f"page {number // 3}" for number in groups}
    assert found["sentence"].to_pylist() == [0] * found.num_rows
    cases = {
        "options.sample: unknown key; did you mean 'samples'": {"sample": 3},
        "options: samples: is -1, expected at least 0": {"samples": -1},
        "options.continuation: prefix: is 0": {"continuation": {"prefix": 0}},
        "options.continuation.decoding: is 'beam'": {"continuation": {"decoding": "beam"}},
    }
    given = {words: (values,) for words, values in cases.items()}
    check_refusals(predict_words.read_options, given)
