"""What models say of every token, and where they differ.

Oracles: sums of documents as they are scored without tokens, single steps, the tokenizers' own
decoding; texts cut by hand; models mixed so that one is better at numbers alone; all words of a
tiny vocabulary enumerated.
"""

import json
import math
from functools import partial

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import beyond_perplexity
from beyond_perplexity.commands import perplexity as command
from beyond_perplexity.commands.library_functions import run_function
from beyond_perplexity.inference import intervals
from beyond_perplexity.models import huggingface_vocabulary, likelihoods, registry
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.token_scores import encode_with_starts
from beyond_perplexity.perplexities.agreement import AGREEMENT_MEASURES, agreement
from beyond_perplexity.perplexities.parts import (
    DOCUMENT,
    PART_SPLITS,
    PIECE_KINDS,
    WHOLE_PART,
    Parts,
    cut_pieces,
    share_out,
    word_ranks,
)
from beyond_perplexity.perplexities.score_files import TokenDocument, read_tokens, tokens_table
from beyond_perplexity.perplexities.summary import ScoredText, score_rows
from beyond_perplexity.perplexities.words import word_surprisals
from beyond_perplexity.schemas.perplexity import TOKEN_SCORES
from beyond_perplexity.storage.shards import read_record, write_shard
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary
from tests.unit import text_pairs
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_models import TINIEST, TINY, make
from tests.unit.test_perplexity import stepwise

PLAIN = ["in", "the", "house", "of", "a", "cat"]
WORDS = [f"w{k}" for k in range(17)] + ["é"]
CLOSED = ClosedVocabulary(WORDS, 3)
STRANGE = ["naïve 👩‍👩‍👧 日本語 x", " a  b ", "x", "tab\tand\nline ", "é" * 9, "̈a \x00 b"]


def texts_of(number, longest, seed=0):
    random = np.random.default_rng(seed)
    drawn = (random.choice([*WORDS, "unseen"], random.integers(1, longest)) for _ in range(number))
    return [" ".join(words) for words in drawn]


def tokenizer_of(kind):
    """Train a small tokenizer: of bytes, with a blank put before, like SentencePiece, or words."""
    trained = {"vocab_size": 400, "show_progress": False}
    if kind.startswith("bytes"):
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=kind == "bytes, blank")
        made.decoder = decoders.ByteLevel()
        trained["initial_alphabet"] = sorted(pre_tokenizers.ByteLevel.alphabet())
    elif kind == "pieces":
        made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
        trained["special_tokens"] = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    else:
        made = Tokenizer(models.WordPiece(unk_token="<unk>"))
        made.normalizer = normalizers.BertNormalizer()
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trained["special_tokens"] = ["<unk>"]
    kind_of = trainers.WordPieceTrainer if kind == "words" else trainers.BpeTrainer
    made.train_from_iterator(texts_of(40, 9), kind_of(**trained))
    made.add_special_tokens(["<end>"])
    end, unknown = made.token_to_id("<end>"), made.token_to_id("<unk>")
    special = {"bos": end, "eos": end, "unk": unknown, "all": [end]}
    described = json.loads(made.to_str())
    rows = made.get_vocab_size()
    return huggingface_vocabulary.HuggingFaceVocabulary(described, rows, special), made


def pieces_of(text, starts):
    content, ends = text.encode(), [*starts[1:].tolist(), len(text.encode())]
    return [content[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]


@pytest.mark.parametrize("kind", ["bytes", "bytes, blank", "pieces", "words"])
def test_tokens_begin_where_the_tokenizer_says_and_tile_the_text(kind):
    vocabulary, made = tokenizer_of(kind)
    texts = [*texts_of(5, 9), *STRANGE]
    for text, (ids, starts) in zip(texts, encode_with_starts(vocabulary, texts), strict=True):
        assert ids.tolist() == vocabulary.encode([text])[0].tolist()
        found = pieces_of(text, starts)
        assert b"".join(found) == text.encode()
        assert (starts[:1] == 0).all()
        assert (np.diff(starts) >= 0).all()
        if kind.startswith("bytes"):  # each letter of a token is a byte
            alphabet = made.decoder
            lengths = [len(made.id_to_token(int(index) - 3)) for index in ids]
            assert [len(one) for one in found][1:] == lengths[1:]
            assert alphabet.decode([made.id_to_token(int(i) - 3) for i in ids]).lstrip() in (
                text.lstrip(),
                text,
            )
        elif kind == "pieces" and text.isascii() and "\t" not in text:
            shown = [made.id_to_token(int(index) - 3).replace("▁", " ") for index in ids]
            shown = [chr(int(one[3:5], 16)) if one[:3] == "<0x" else one for one in shown]
            assert [one.decode() for one in found][1:] == shown[1:]


def test_tokens_of_our_own_vocabularies_begin_with_the_blank_before_them():
    own = BPEVocabulary.build([texts_of(20, 9)], 300)
    for text in (*texts_of(5, 9), "日本 é x"):
        ((ids, starts),) = encode_with_starts(own, [text])
        assert b"".join(pieces_of(text, starts)) == text.encode()
        decoded = [own._tokenizer.id_to_token(int(index) - 3) for index in ids]
        assert np.diff(starts)[1:].tolist() == [len(token) for token in decoded][1:-1]
    ((ids, starts),) = encode_with_starts(CLOSED, [" w1  é zz "])
    assert (ids.tolist(), pieces_of(" w1  é zz ", starts)) == (
        [4, 20, 2],
        [b" w1", "  é".encode(), b" zz "],
    )
    assert next(encode_with_starts(CLOSED, [""]))[1].tolist() == []


@pytest.mark.parametrize("family", [*TINY, "kneser-ney"])
@pytest.mark.parametrize("window", [{}, {"context_length": 6, "stride": 2}])
@pytest.mark.parametrize("count_eos", [True, False])
def test_tokens_add_up_to_todays_scores_bit_for_bit(family, window, count_eos):
    texts = [*texts_of(60, 30), "", "w1"]
    if family == "kneser-ney":
        model = KneserNey.fit([CLOSED.encode(texts_of(50, 9, seed=1))], CLOSED.size)
    else:
        model = make(family, TINY[family], CLOSED.size)
    how = {"count_eos": count_eos, "batch_tokens": 64, **window}
    expected = list(likelihoods.score_documents(model, CLOSED, texts, **how))
    found = list(likelihoods.score_texts_by_token(model, CLOSED, texts, **how))
    assert [score for score, _ in found] == expected
    for text, (score, tokens) in zip(texts, found, strict=True):
        assert len(tokens.log_probs) == len(tokens.starts) == len(tokens.tokens)
        assert len(tokens.tokens) == score.tokens + count_eos
        assert math.fsum(tokens.log_probs) == pytest.approx(score.log_prob, abs=1e-9)
        assert tokens.ended == count_eos
        if count_eos:
            assert (tokens.tokens[-1], tokens.starts[-1]) == ("</s>", len(text.encode()))
    if not window:
        for place in (0, 60):
            ids = CLOSED.encode([texts[place]])[0]
            steps = np.diff([0, *(stepwise_part(model, ids, k) for k in range(1, len(ids) + 2))])
            log_probs = found[place][1].log_probs
            np.testing.assert_allclose(log_probs, steps[: len(log_probs)], atol=2e-5)


@torch.no_grad()
def stepwise_part(model, ids, count):
    """Return ln p of the first tokens, a step at a time."""
    if count == len(ids) + 1:
        return stepwise(model, ids)
    state, total = model.initial_state(1, count), 0.0
    for before, after in zip([0, *ids[: count - 1]], ids[:count], strict=True):
        logits, state = model.step(torch.tensor([before]), state)
        total += float(logits.double().log_softmax(1)[0, after])
    return total


def tokens_of(texts, model, vocabulary=CLOSED, **how):
    """Score texts with their tokens: items, kind and scores of each batch, and the rows."""
    kept = []
    rows = score_rows(model, vocabulary, texts, tokens=lambda *one: kept.append(one), **how)
    return kept, [row for part in rows for row in part]


def test_a_file_of_tokens_is_read_as_it_was_written_and_wrong_rows_are_named(tmp_path, monkeypatch):
    model = make("lstm", TINIEST, CLOSED.size)
    texts = [ScoredText(7 * k, text, f"g{k % 3}") for k, text in enumerate(texts_of(30, 12))]
    kept, rows = tokens_of(texts, model)
    assert rows == [row for part in score_rows(model, CLOSED, texts) for row in part]
    path = str(tmp_path / "tokens.parquet")
    write_shard(path, TOKEN_SCORES, tokens_table(*kept[0]), {})
    monkeypatch.setattr("beyond_perplexity.perplexities.score_files.READ_TOKENS", 11)
    found = list(read_tokens(path))
    assert [one.item for one in found] == texts
    for one, expected in zip(found, kept[0][2], strict=True):
        assert one.scores.tokens == expected.tokens
        assert one.scores.ended
        np.testing.assert_array_equal(one.scores.log_probs, expected.log_probs)
        np.testing.assert_array_equal(one.scores.starts, expected.starts)
    table = pq.read_table(path)
    held = table.to_pydict()
    assert held["end"][:2] == [held["start"][1], held["start"][2]]
    wrong = [("log_prob", 0.5), ("log_prob", math.nan), ("start", -1), ("position", 4)]
    for column, value in (*wrong, ("text", None)):
        row = 0 if column == "text" else 1
        changed = held | {column: [*held[column][:row], value, *held[column][row + 1 :]]}
        write_shard(path, TOKEN_SCORES, changed, {})
        check_refused(f"row {row + 1}: {column} is", lambda: list(read_tokens(path)))


@pytest.fixture
def run(tmp_path, capsys):
    """Run `perplexity` on a text with some flags; return what it prints."""
    registry.save_model(tmp_path / "model", make("lstm", TINIEST, CLOSED.size), CLOSED, {})

    def done(name, content, *more):
        (tmp_path / name).write_text(content, encoding="utf-8")
        flags = ["--model", tmp_path / "model", "--text", tmp_path / name, "--tokenized"]
        text_pairs.run_script(command, *flags, "--device", "cpu", *more)
        return json.loads(capsys.readouterr().out)

    return done


def test_the_command_writes_tokens_whole_or_not_at_all(run, tmp_path):
    path = tmp_path / "tokens.parquet"
    found = run("x.txt", "\n".join(texts_of(40, 9)), "--per-token", path)
    held = pq.read_table(path).to_pydict()
    assert math.fsum(held["log_prob"]) == pytest.approx(found["log_prob"], abs=1e-9)
    assert sum(not ending for ending in held["ending"]) == found["tokens"]
    assert read_record(path)["signature"] == {"cleaned": found["signature"]}
    path.unlink()
    lines = [*(json.dumps({"text": text}) for text in texts_of(2000, 3)), "{"]
    check_refused("line 2001", partial(run, "x.jsonl", "\n".join(lines), "--per-token", path))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["model", "x.jsonl", "x.txt"]


def kinds_of(text):
    pieces = cut_pieces(text)
    content, begins = text.encode(), [0, *pieces.ends.tolist()][:-1]
    held = zip(begins, pieces.ends.tolist(), pieces.kinds.tolist(), strict=True)
    return [(content[start:end].decode(), PIECE_KINDS[kind]) for start, end, kind in held]


def test_a_text_is_cut_into_pieces_of_kinds_that_tile_it():
    """Oracle: kinds by hand."""
    found = kinds_of(
        "In 1,995 Ada's friend met \"Bob\". He didn't (ever)\n\nUse foo_bar() or x=3 !"
    )
    by_hand = """In word/1,995 number/Ada's name/friend word/met word/" punctuation/Bob name
        /". punctuation/He word/didn't word/( punctuation/ever word/) punctuation
        / white space/Use word/foo_bar() code/or word/x=3 code/! punctuation"""
    pairs = [one.strip().partition(" ")[::2] for one in by_hand.split("/")]
    assert [(piece.strip(), kind) for piece, kind in found] == [
        ("", "white space") if piece == "white" else (piece, kind) for piece, kind in pairs
    ]
    for text in (*STRANGE, *texts_of(5, 9), "", "नमस्ते दुनिया", "  ", "\n", "a ", "naïve É"):
        assert "".join(piece for piece, _ in kinds_of(text)) == text
    assert kinds_of("नमस्ते दुनिया") == [("नमस्ते", "word"), (" दुनिया", "word")]


def test_bits_of_a_token_over_several_pieces_are_shared_out_by_its_bytes():
    """Oracle: shares by hand. A blank counts nothing in a token that has more."""
    text = "ab 12 cd"
    pieces = cut_pieces(text)
    starts = np.array([0, 1, 6, 6, 8])  # "a", "b 12 ", nothing, "cd", the end
    bits = np.array([1.0, 6.0, 5.0, 2.0, 3.0])
    scores = likelihoods.TokenScores(-bits * math.log(2), starts, [""] * 5, True)
    found = share_out(scores, text.encode(), pieces.ends)
    np.testing.assert_allclose(found, [1 + 2, 4, 5 + 2, 3])
    later = scores._replace(starts=np.array([1, 1, 6, 6, 8]))  # the first byte is not scored
    np.testing.assert_allclose(share_out(later, text.encode(), pieces.ends), [3, 4, 7, 3])
    blanks = likelihoods.TokenScores(np.array([-1.0, -1.0]), np.array([0, 1]), ["", ""], False)
    np.testing.assert_allclose(
        share_out(blanks, b"a  ", cut_pieces("a  ").ends) * math.log(2), [1, 1, 0]
    )


def scored(texts, *models, **how):
    """Score texts under models of one vocabulary: of each document what each says."""
    kept = [tokens_of(texts, model, **how)[0] for model in models]
    columns = [
        [
            TokenDocument(item, kind, one)
            for items, kind, scores in part
            for item, one in zip(items, scores, strict=True)
        ]
        for part in kept
    ]
    return list(zip(*columns, strict=True))


def table_of(documents, names=("a", "b"), reference=None):
    parts = Parts(names, word_ranks(reference or [one[0].item.text for one in documents]))
    for one in documents:
        parts.add(one)
    return parts.table().to_pandas()


def items_of(number, seed=0, group=2):
    random = np.random.default_rng(seed)
    found = []
    for place in range(number):
        words = random.choice([*PLAIN, "1995", "12", ".", ","], random.integers(3, 40))
        found.append(ScoredText(place, " ".join(words), f"page {place // group}"))
    return found


NUMBERS = ClosedVocabulary([*PLAIN, "1995", "12", ".", ","], 0)


def test_parts_add_up_to_the_whole_exactly_and_agree_with_the_rows_of_documents():
    models = make("lstm", TINIEST, NUMBERS.size), make("lstm", TINIEST, NUMBERS.size, seed=1)
    items = items_of(120)
    documents = scored(items, *models, vocabulary=NUMBERS)
    table = table_of(documents)
    (whole,) = table[table["split"] == WHOLE_PART].to_dict("records")
    for split, held in table.groupby("split"):
        for column in ("first_bits", "second_bits", "value"):
            assert math.fsum(held[column]) == sum(held[column]) == whole[column], split
        assert held["bytes"].sum() == whole["bytes"]
    assert set(table["split"]) == {WHOLE_PART, DOCUMENT, *PART_SPLITS}
    rows = [tokens_of(items, model, NUMBERS)[1] for model in models]
    sizes = np.array([row.bytes + 1 for row in rows[0]])
    bits = [np.array([-row.log_likelihood / math.log(2) for row in one]) for one in rows]
    groups = np.arange(120) // 2
    sums = intervals.sum_groups(groups, bits[0] - bits[1], sizes)
    expected = intervals.ratio_test(*sums)
    assert whole["value"] == pytest.approx(expected.interval.value, rel=1e-11)
    assert (whole["low"], whole["p_value"]) == pytest.approx(
        (expected.interval.low, expected.p_value)
    )
    assert (whole["bytes"], whole["groups"], whole["documents"]) == (sizes.sum(), 60, 120)
    carried = table[table["split"] == DOCUMENT]
    by_hand = np.sort(np.abs(bits[0] - bits[1]))[::-1][:10]
    found = np.abs(carried["value"][:10]) * sizes.sum()
    np.testing.assert_allclose(found, by_hand, rtol=1e-9)
    ends = table[(table["split"] == "kind") & (table["part"] == "end of the document")]
    assert ends["bytes"].tolist() == [120]


def test_a_model_against_itself_differs_nowhere():
    model, items = make("lstm", TINIEST, NUMBERS.size), items_of(60, group=1)
    table = table_of(scored(items, model, model, vocabulary=NUMBERS))
    tested = table[table["low"].notna()]
    assert (table["value"] == 0).all()
    assert (tested[["p_value", "p_adjusted"]] == 1).all(axis=None)
    assert (tested[["low", "high", "within"]] == 0).all(axis=None)
    assert len(tested) == 14


def test_a_model_that_is_better_at_numbers_alone_shows_there_alone():
    model, items = make("lstm", TINIEST, NUMBERS.size), items_of(120, group=1)
    better = []
    for one, _ in scored(items, model, model, vocabulary=NUMBERS):
        is_number = np.array(
            [token[:1].isdigit() for token in (t.strip() for t in one.scores.tokens)]
        )
        log_probs = np.where(is_number, one.scores.log_probs + 0.7, one.scores.log_probs)
        better.append((one, one._replace(scores=one.scores._replace(log_probs=log_probs))))
    table = table_of(better)
    shown = table[table["p_adjusted"] < 0.05]
    assert set(shown["part"][shown["split"] == "kind"]) == {"number"}
    assert set(shown["part"][shown["split"] == "frequency"]) == {"no word"}
    (number,) = table[(table["split"] == "kind") & (table["part"] == "number")].to_dict("records")
    others = table[(table["split"] == "kind") & (table["part"] != "number")]
    assert np.abs(others["value"]).max() < 1e-12
    count = sum(text.split().count(word) for _, text, *_ in items for word in ("1995", "12"))
    total = table["bytes"].max()
    assert number["value"] == pytest.approx(count * 0.7 / math.log(2) / total)


def test_few_groups_have_no_interval_and_impossible_or_other_texts_are_named():
    model, items = make("lstm", TINIEST, NUMBERS.size), items_of(30, group=2)
    both = scored(items, model, make("gru", TINIEST, NUMBERS.size), vocabulary=NUMBERS)
    table = table_of(both)
    assert table["low"].isna().all()
    assert table["p_adjusted"].isna().all()
    assert set(table["note"][table["split"] != DOCUMENT]) == {
        "fewer than 20 effective groups: no interval"
    }
    one, other = both[3]
    check_refused("doc_id 4 is another", Parts("ab", {}).add, [one, both[4][1]])
    impossible = other.scores._replace(log_probs=np.array([-np.inf, *other.scores.log_probs[1:]]))
    given = [one, other._replace(scores=impossible)]
    check_refused("b: finds token 0", Parts("ab", {}).add, given)


def test_two_tokenizers_are_compared_byte_by_byte():
    """Oracle: what is spent on a word, with the blank before it, by hand."""
    own = BPEVocabulary.build([[item.text for item in items_of(30)]], 275)
    items = items_of(40, group=1)
    fine = tokens_of(items, make("lstm", TINIEST, own.size, open_vocabulary=True), own)[0]
    words = tokens_of(items, make("lstm", TINIEST, NUMBERS.size), NUMBERS)[0]
    documents = [
        tuple(TokenDocument(item, "cleaned", scores[place]) for scores in (fine[0][2], words[0][2]))
        for place, item in enumerate(items)
    ]
    table = table_of(documents)
    held = table[table["split"] == "kind"].set_index("part")
    for column, side in (("first_bits", 0), ("second_bits", 1)):
        total = 0.0
        for pair in documents:
            scores = pair[side].scores
            content = pair[side].item.text.encode()
            for place, start in enumerate(scores.starts[:-1]):
                end = scores.starts[place + 1]
                word = content[: max(end, start + 1)].rpartition(b" ")[2]
                word += content[max(end, start + 1) :].partition(b" ")[0]
                if word[:1].isdigit():
                    total -= scores.log_probs[place] / math.log(2)
        assert held[column]["number"] * table["bytes"].max() == pytest.approx(total)


def test_divergences_and_agreement_are_those_of_enumerated_distributions():
    """Oracle: softmax by hand at each place of each document, one at a time."""
    models = [
        make("transformer", {**TINY["transformer"], "context_length": 8}, 21, seed=k)
        for k in (0, 1)
    ]
    texts = [ScoredText(k, text) for k, text in enumerate(texts_of(30, 20))]
    found = agreement(tuple(models), ("a", "b"), CLOSED, texts).to_pandas()
    sums, counts = [], []
    with torch.no_grad():
        for item in texts:
            ids = [0, *CLOSED.encode([item.text])[0].tolist()]
            total = np.zeros(3)
            for place in range(len(ids)):
                step = max(0, -(-(place - 7) // 4)) * 4  # windows of 8 that move by 4
                seen = torch.tensor([ids[min(step, max(0, len(ids) - 8)) : place + 1]])
                p, q = (model(seen)[0, -1].double().softmax(0).numpy() for model in models)
                held = p > 0
                total += [
                    np.sum(p[held] * np.log(p[held] / q[held])),
                    np.sum(q[held] * np.log(q[held] / p[held])),
                    p.argmax() == q.argmax(),
                ]
            sums.append(total)
            counts.append(len(ids))
    expected = [
        intervals.ratio_test(column, np.array(counts)).interval for column in np.array(sums).T
    ]
    assert found["measure"].tolist() == list(AGREEMENT_MEASURES)
    for row, interval in zip(found.to_dict("records"), expected, strict=True):
        assert (row["value"], row["low"], row["high"]) == pytest.approx(interval[:3], abs=1e-5)
        assert row["tokens"] == sum(counts)
    same = agreement((models[0], models[0]), ("a", "a"), CLOSED, texts).to_pandas()
    assert same["value"].tolist() == [0, 0, 1]


def test_words_have_the_probability_of_their_tokens_and_of_the_blank_behind():
    """Oracle: all next tokens enumerated, after single prefixes; the chain rule."""
    vocabulary, made = tokenizer_of("bytes")
    torch.manual_seed(0)
    model = make("lstm", TINIEST, vocabulary.size, noise=0.5).double()
    texts = [*texts_of(4, 6), "w1\nw2  w3 ", "naïve w1", " w1"]
    kept, rows = tokens_of(texts, model, vocabulary, text="raw")
    found = word_surprisals(model, vocabulary, (None, None), *kept[0]).to_pandas()
    begins = [
        index
        for index in range(3, vocabulary.size)
        if made.decode([index - 3])[:1] in tuple(" \t\n\r\v\f")
    ]

    @torch.no_grad()
    def blank(ids):
        p = model(torch.tensor([[0, *ids]]))[0, -1].softmax(0)
        return float((p[begins].sum() + p[1]).log())

    for place, text in enumerate(texts):
        own = found[found["doc_id"] == place]
        assert own["log_prob"].sum() == pytest.approx(rows[place].log_likelihood)
        assert own["log_prob_tokens"].sum() == pytest.approx(rows[place].log_likelihood)
        assert [word for word in own["word"][:-1] if word] == text.split()
        ids = vocabulary.encode([text])[0].tolist()
        scores = kept[0][2][place]
        for row in own.to_dict("records")[:-1]:
            first = int(np.searchsorted(scores.starts[:-1], row["start"]))
            last = int(np.searchsorted(scores.starts[:-1], row["end"]))
            total = scores.log_probs[first:last].sum()
            if last < len(ids) or not text.endswith(" "):
                total += blank(ids[:last])
            total -= blank(ids[:first]) if first else 0
            assert row["log_prob"] == pytest.approx(total, abs=1e-6)
            assert row["surprisal"] == pytest.approx(-total / math.log(2), abs=1e-6)
    kept, rows = tokens_of(texts_of(5, 9), make("lstm", TINIEST, CLOSED.size))
    found = word_surprisals(make("lstm", TINIEST, CLOSED.size), CLOSED, (None, None), *kept[0])
    held = found.to_pydict()
    assert (
        held["log_prob"]
        == held["log_prob_tokens"]
        == pytest.approx(np.concatenate([one.log_probs for one in kept[0][2]]).tolist())
    )


@pytest.fixture(scope="module")
def two_models(tmp_path_factory):
    """Save two models of one vocabulary, and a text of pages."""
    folder = tmp_path_factory.mktemp("two")
    for name, seed in (("a", 0), ("b", 1)):
        model = make("lstm", TINIEST, NUMBERS.size, seed=seed)
        registry.save_model(folder / name, model, NUMBERS, {})
    lines = ({"text": item.text, "group": item.group} for item in items_of(80))
    (folder / "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_models_on_a_text_and_files_of_tokens_give_the_same_tables_and_a_page(
    two_models, tmp_path, capsys
):
    """Oracle: the differences of documents without tokens; models that are scored one by one."""
    names, text = [str(two_models / name) for name in "ab"], two_models / "test.jsonl"
    given = {"model": names[0], "against": names[1], "texts": text, "tokenized": True}
    found = beyond_perplexity.compare_perplexity(**given, out=tmp_path / "out", device="cpu")
    scores = {
        name: beyond_perplexity.perplexity(path, text, tokenized=True, device="cpu")
        for name, path in zip("ab", names, strict=True)
    }
    plain = beyond_perplexity.compare_perplexity(scores)
    for column in ("value", "low", "high", "p_value"):
        np.testing.assert_allclose(found.table[column], plain.table[column], rtol=1e-9)
    assert found.summary["signature"] == plain.summary["signature"]
    parts, agreed = found.table_of("parts"), found.table_of("agreement")
    assert parts["value"][0] == pytest.approx(found.table["value"][2], rel=1e-11)
    words = sum(len(item.text.split()) + 1 for item in items_of(80))
    assert agreed["tokens"].tolist() == [words] * 3
    assert [one["file"] for one in found.files] == [str(text)]
    assert set(found.figures) == {"differences", "parts", "by_position"}
    page = (tmp_path / "out/difference.html").read_text()
    assert page.count("data:image/svg+xml") == 3
    assert "KL(first || second)" in page
    for name, path in zip("ab", names, strict=True):
        flags = ["--model", path, "--text", text, "--tokenized", "--device", "cpu"]
        text_pairs.run_script(command, *flags, "--per-token", tmp_path / f"{name}.parquet")
    capsys.readouterr()
    files = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    run_function("compare_perplexity", files)
    said = capsys.readouterr()
    again = beyond_perplexity.compare_perplexity(files)
    assert said.out.strip() == again.text
    pd.testing.assert_frame_equal(again.table_of("parts"), parts)
    assert f"{files[0]}: {agreed['tokens'][0]:,} tokens read, all used" in said.err
    other = two_models / "other.txt"
    other.write_text("dog\nfish\n" * 3 + "cat\n")
    ranked = beyond_perplexity.compare_perplexity(files, frequencies=other).table_of("parts")
    held = ranked[ranked["split"] == "frequency"].set_index("part")["documents"]
    assert held["100 most frequent words"] < held["words not in the reference"]


def test_a_closed_vocabulary_is_not_compared_with_an_open_one(two_models, tmp_path):
    own = BPEVocabulary.build([[item.text for item in items_of(30)]], 275)
    model = make("lstm", TINIEST, own.size, open_vocabulary=True)
    registry.save_model(tmp_path / "open", model, own, {})
    lines = [{"text": f"{item.text} strange"} for item in items_of(40)]
    text = tmp_path / "test.jsonl"
    text.write_text("".join(json.dumps(line) + "\n" for line in lines))
    given = {"against": two_models / "a", "texts": text, "tokenized": True, "device": "cpu"}
    words = "a: has signature .* differ in spelling"
    check_refused(words, beyond_perplexity.compare_perplexity, model=tmp_path / "open", **given)


def test_what_does_not_go_together_is_refused(two_models, tmp_path):
    compare = beyond_perplexity.compare_perplexity
    model, text = two_models / "a", two_models / "test.jsonl"
    for given, words in (
        ({"model": model}, "give all three"),
        ({"model": model, "against": model, "texts": text, "scores": ["x"]}, "and no scores"),
        ({"scores": ["x.csv"], "field": "y"}, "field: has no effect without models"),
        ({"scores": ["x.csv"], "frequencies": "y"}, "frequencies: has no effect without"),
    ):
        check_refused(words, compare, **given)
    itself = compare(model=model, against=model, texts=text, tokenized=True, device="cpu")
    assert set(itself.table["second"].dropna()) == {"a (again)"}
    assert (itself.table_of("parts")["value"] == 0).all()
