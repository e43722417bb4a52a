"""Hugging Face models: scoring, steps, decoding, the vocabulary, the way into a model folder.

Oracles: the forward pass, loss and `generate` of transformers (`dev` or `hf`), rescoring, softmaxes
by hand. The models are tiny, random and made here.
"""

import copy
import json
import math
import shutil

import huggingface_hub
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch.nn import functional

from beyond_perplexity.commands import library_functions, perplexity
from beyond_perplexity.decoding import generation
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.huggingface_bring import bring
from beyond_perplexity.models.huggingface_model import CACHE_STEP
from beyond_perplexity.models.huggingface_vocabulary import HuggingFaceVocabulary
from beyond_perplexity.models.registry import is_foreign, load_model, open_any, open_scorer
from beyond_perplexity.perplexities.summary import ScoredText, measure
from beyond_perplexity.storage import provenance, shards
from beyond_perplexity.training.fitting import fit_files
from beyond_perplexity.vocabulary import BOS, EOS, UNK, ClosedVocabulary, load_vocabulary
from tests.unit.evaluator_oracles import check_refusals, check_refused
from tests.unit.huggingface_models import CONTEXT, END, MAKERS, TEXTS, make_gpt2, make_tokenizer
from tests.unit.small_corpora import write_corpus
from tests.unit.small_models import rescored, same

pytestmark = pytest.mark.usefixtures("one_thread")
CPU, WEIGHTS = torch.device("cpu"), "model.safetensors"
WRITTEN = f"</s> <s> {END} <pad> <unk> , na\u00efve \U0001f600 a\u0301 ."


@pytest.fixture(scope="module", params=MAKERS)
def folder(request, tmp_path_factory):
    made = tmp_path_factory.mktemp(request.param) / "model"
    MAKERS[request.param](made)
    return made


@pytest.fixture(scope="module")
def case(folder):
    """Give a model as transformers has it, as we have it, and our vocabulary."""
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    ours, vocabulary, _ = bring({"path": str(folder)}, None)
    return theirs, ours, vocabulary


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    make_gpt2(folder)
    return folder


def their_ids(vocabulary, tokens):
    """Map our ids to the model's, by the definition."""
    bos, eos, unk = vocabulary.special_ids
    table = [bos, eos, eos if unk is None else unk, *range(vocabulary.size - 3)]
    return torch.tensor(table)[tokens]


def never(theirs):
    """List the model's ids that no document has: Llama's <s> and <pad>, and rows of no token."""
    rows = theirs.config.vocab_size
    return [] if theirs.config.model_type == "gpt2" else [1, 3, *range(rows - 7, rows)]


def documents(vocabulary, rows=4, length=40):
    """Draw tokens that are possible, each row from <s> on."""
    possible = np.setdiff1d(np.arange(3, vocabulary.size), vocabulary.impossible)
    drawn = np.random.default_rng(0).choice(possible, (rows, length))
    drawn[:, 0] = BOS
    return torch.from_numpy(drawn)


@torch.no_grad()
def test_logits_are_the_models_own_and_what_is_possible_sums_to_one(case):
    theirs, ours, vocabulary = case
    tokens = documents(vocabulary)
    truth = theirs(input_ids=their_ids(vocabulary, tokens)).logits
    found = ours(tokens)
    assert (found.shape, found.dtype) == ((4, 40, vocabulary.size), torch.float32)
    possible = np.setdiff1d(np.arange(vocabulary.size), vocabulary.impossible)
    wanted = truth[:, :, their_ids(vocabulary, torch.from_numpy(possible))]
    assert torch.allclose(found[:, :, possible], wanted, atol=1e-4)
    assert torch.isneginf(found[:, :, vocabulary.impossible]).all()
    # Each of the model's ids that can be has one of ours and only one.
    assert len(set(their_ids(vocabulary, torch.from_numpy(possible)).tolist())) == len(possible)
    theirs, ours, vocabulary = case
    tokens = documents(vocabulary, rows=2)
    p = ours(tokens).double().softmax(-1)
    assert torch.allclose(p.sum(-1), torch.ones(2, 40, dtype=torch.float64))
    assert not p[:, :, vocabulary.impossible].any()
    logits = theirs(input_ids=their_ids(vocabulary, tokens)).logits.double()
    _, eos, unk = vocabulary.special_ids
    allowed = sorted({eos} | ({unk} - {None}) | set(_text_ids(vocabulary)))
    expected = logits[:, :, allowed].softmax(-1)[:, :, allowed.index(eos)]
    assert torch.allclose(p[:, :, EOS], expected, atol=1e-6)


def test_what_is_impossible(case):
    theirs, _, vocabulary = case
    if theirs.config.model_type == "gpt2":
        assert (vocabulary.special_ids, vocabulary.impossible) == ((0, 0, None), [BOS, UNK, 3])
        assert vocabulary.size == theirs.config.vocab_size + 3
    else:  # unk, bos, eos, pad are ids 0 to 3; the last seven rows are no token
        assert vocabulary.special_ids == (1, 2, 0)
        rows = theirs.config.vocab_size
        assert vocabulary.impossible == [BOS, 3, 4, 5, 6, *range(rows - 4, rows + 3)]


def _text_ids(vocabulary):
    """List the model's ids of tokens that texts are made of, from the tokenizer's JSON."""
    held = vocabulary.describe()["tokenizer"]
    special = {token["id"] for token in held["added_tokens"] if token["special"]}
    return sorted(set(held["model"]["vocab"].values()) - special)


@torch.no_grad()
def test_steps_equal_the_whole_pass_with_rows_of_their_own_lengths(case):
    """Rows are restarted at different times, across the growth of the cache, and reordered."""
    _, ours, vocabulary = case
    tokens = documents(vocabulary, rows=5, length=CONTEXT)
    whole = ours(tokens)
    state = ours.initial_state(5, CONTEXT)
    document, place = np.arange(5), np.zeros(5, int)
    generator = np.random.default_rng(1)
    seen = 0
    for step in range(100):
        logits, state = ours.step(tokens[document, place], state)
        assert torch.allclose(logits, whole[document, place], atol=2e-4)
        seen = max(seen, place.max())
        place += 1
        done = (place == CONTEXT) | (generator.random(len(place)) < 0.01)
        if done.any():
            state = state.reset(torch.from_numpy(np.flatnonzero(done)))
            document[done], place[done] = generator.integers(0, 5, done.sum()), 0
        if step % 7 == 3:
            rows = generator.integers(0, len(place), [3, 5, 9][step % 3])
            state = state.select(torch.from_numpy(rows))
            document, place = document[rows], place[rows]
    assert seen > CACHE_STEP


def test_the_cache_grows_with_the_longest_prefix(gpt2):
    model, *_ = bring({"path": str(gpt2)}, None)
    state = model.initial_state(2, CONTEXT)
    sizes = []
    with torch.inference_mode():
        for _ in range(CONTEXT):
            _, state = model.step(torch.tensor([5, 6]), state)
            sizes.append(state.cache.held[0][0].shape[2])
    assert sizes == [CACHE_STEP] * CACHE_STEP + [2 * CACHE_STEP] * CACHE_STEP


@pytest.mark.parametrize("family", MAKERS)
def test_greedy_texts_are_those_of_generate(family, tmp_path):
    endings, sizes = set(), set()
    for seed in (0, 1, 4, 8, 11):
        theirs = MAKERS[family](tmp_path / str(seed), seed=seed)
        ours, vocabulary, _ = bring({"path": str(tmp_path / str(seed))}, None)
        (document,) = texts_of(ours, {"kind": "top_k", "k": 1}, 1, maximum_length=CONTEXT - 1)
        bos, eos, _ = vocabulary.special_ids
        how = {"do_sample": False, "max_new_tokens": CONTEXT - 1, "pad_token_id": eos}
        how |= {"attention_mask": torch.ones(1, 1, dtype=torch.int64)}
        how |= {"suppress_tokens": never(theirs) or None}
        written = theirs.generate(torch.tensor([[bos]]), **how)[0, 1:].tolist()
        ended = eos in written
        expected = written[: written.index(eos)] if ended else written
        found = torch.from_numpy(document.tokens).long()
        assert their_ids(vocabulary, found).tolist() == expected
        assert document.finished == ended
        endings.add(ended)
        sizes.add(len(set(expected)))
    assert endings == {True, False}
    assert max(sizes) > 20


def test_scores_are_the_models_own_loss(case):
    """GPT-2 gives each of its ids to one of ours, so that its loss is ours without a change."""
    theirs, ours, vocabulary = case
    summary = measure(ours, vocabulary, TEXTS)
    bos, eos, _ = vocabulary.special_ids
    blocked = torch.tensor(never(theirs), dtype=torch.int64)
    total, count = 0.0, 0
    for ids in vocabulary.encode(TEXTS):
        row = torch.tensor([[bos, *(ids - 3).tolist(), eos]])
        with torch.no_grad():
            found = theirs(input_ids=row, labels=row)
            logits = found.logits[0, :-1].index_fill(1, blocked, -math.inf)
            loss = functional.cross_entropy(logits, row[0, 1:]) if len(blocked) else found.loss
        total += float(loss) * (row.shape[1] - 1)
        count += row.shape[1] - 1
    assert summary["n"]["token"] == count
    assert summary["perplexity"]["token"] == pytest.approx(math.exp(total / count), rel=1e-5)
    for unit, size in (
        ("word", sum(len(text.split()) for text in TEXTS)),
        ("character", sum(map(len, TEXTS))),
        ("byte", sum(len(text.encode()) for text in TEXTS)),
    ):
        assert summary["n"][unit] == size + len(TEXTS)
        expected = math.exp(total / (size + len(TEXTS)))
        assert summary["perplexity"][unit] == pytest.approx(expected, rel=1e-5)
    assert summary["unknown"] == summary["impossible_tokens"] == 0
    assert summary["vocabulary"] == {"kind": "huggingface", "size": vocabulary.size}


def test_the_context_limits_what_is_asked_and_longer_documents_are_scored_in_windows(gpt2):
    model, vocabulary, _ = bring({"path": str(gpt2)}, None)
    summary = measure(model, vocabulary, [" ".join(TEXTS * 3)])
    assert summary["context_length"] == CONTEXT < summary["tokens"]
    assert summary["impossible_tokens"] == 0
    model, *_ = bring({"path": str(gpt2)}, None)
    assert model.context_length == CONTEXT
    assert len(texts_of(model, {"kind": "ancestral"}, count=3, maximum_length=CONTEXT)) == 3
    with pytest.raises(InputError, match=f"conditions on {CONTEXT} tokens"):
        texts_of(model, {"kind": "ancestral"}, maximum_length=CONTEXT + 1)
    check_refused(f"context has {CONTEXT} tokens", model.initial_state, 1, CONTEXT + 1)
    with pytest.raises(ValueError, match="exceed the context"):
        model(torch.zeros(1, CONTEXT + 1, dtype=torch.int64))


DECODINGS = [{"kind": "ancestral"}, {"kind": "nucleus", "mass": 0.8}, {"kind": "beam", "size": 3}]
DECODINGS += [{"kind": "typical", "mass": 0.5}]


def texts_of(model, decoding, count=24, **others):
    arguments = {"seed": 3, "purpose": "t", "first": 0, "maximum_length": 45, **others}
    return list(generation.generate(model, parse_decoding(decoding), count=count, **arguments))


@pytest.mark.parametrize("decoding", DECODINGS, ids=str)
def test_batch_and_shard_change_no_text_and_log_prob_equals_rescoring(case, decoding):
    """Documents of few tokens, so that slots are refilled: a leak of state would show here."""
    _, ours, _ = case
    expected = texts_of(ours, decoding, batch_size=16)
    assert same(expected, texts_of(ours, decoding, batch_size=48))
    parts = texts_of(ours, decoding, count=7), texts_of(ours, decoding, count=17, first=7)
    assert same(expected, [*parts[0], *parts[1]])
    _, ours, vocabulary = case
    found = texts_of(ours, decoding, count=60, batch_size=16)
    assert any(len(document.tokens) > CACHE_STEP for document in found)
    for document in found:
        assert document.log_prob == pytest.approx(rescored(ours, document), rel=1e-5, abs=1e-3)
        assert not set(document.tokens.tolist()) & set(vocabulary.impossible)


SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
SMALL |= {"num_attention_heads": 2, "num_key_value_heads": 1}
SMALL |= {"max_position_embeddings": CONTEXT, "pad_token_id": None}
ARCHITECTURES = {  # what they have that the two above have not
    "mistral": {"sliding_window": 16},
    "granite": {"logits_scaling": 4.0},
    "cohere": {"logit_scale": 0.25},
    "gemma2": {"head_dim": 16, "sliding_window": 16, "final_logit_softcapping": 5.0},
    "gpt_neox": {},
}


def make_other(folder, kind, special=None, **more):
    rows = make_tokenizer(folder, special or {"eos_token": "</s>"})
    options = {**SMALL, "vocab_size": rows, "bos_token_id": 0, "eos_token_id": 0, **more}
    config = transformers.AutoConfig.for_model(kind, **options)
    torch.manual_seed(2)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_other_architectures(kind, tmp_path):
    """The import tries the logits itself; here the loss and the context are looked at."""
    make_other(tmp_path, kind, **ARCHITECTURES[kind])
    model, vocabulary, _ = bring({"path": str(tmp_path)}, None)
    assert model.context_length == ARCHITECTURES[kind].get("sliding_window", CONTEXT)
    assert vocabulary.special_ids == (0, 0, None)  # what ends a document also begins it
    tokens = documents(vocabulary, rows=3, length=12)
    targets = tokens[:, 1:].flatten()
    features = model.features(tokens[:, :-1]).flatten(0, 1)
    expected = functional.cross_entropy(model.output.logits(features), targets, reduction="sum")
    found = model.output.summed_loss(features, targets, torch.float32)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    wanted = torch.autograd.grad(expected, model.output.linear.weight, retain_graph=True)
    gradient = torch.autograd.grad(found, model.output.linear.weight)[0]
    assert torch.allclose(gradient, wanted[0], atol=1e-4)
    assert len(texts_of(model, {"kind": "ancestral"}, count=5, maximum_length=16)) == 5


def assert_texts_come_back(vocabulary, texts):
    """Assert it also of special tokens that are written in a text, which are ordinary."""
    encoded = vocabulary.encode(texts)
    assert vocabulary.decode(encoded) == texts
    assert all(ids.dtype == np.int32 for ids in encoded)
    assert not set(np.concatenate(encoded).tolist()) & {*vocabulary.impossible, BOS, EOS, UNK}


def test_texts_come_back_with_the_tokenizers_ids_and_three_and_files_hold_all(case, tmp_path):
    _, _, vocabulary = case
    assert_texts_come_back(vocabulary, [*TEXTS, WRITTEN, "", "a"])
    whole = Tokenizer.from_str(json.dumps(vocabulary.describe()["tokenizer"]))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=whole)
    for text, ids in zip(TEXTS, vocabulary.encode(TEXTS), strict=True):
        assert (ids - 3).tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]
    (ids,) = vocabulary.encode([" the\n\ncat \t sat "])
    assert vocabulary.decode([np.concatenate([[BOS], ids, [EOS]])]) == ["the cat sat"]
    _, _, vocabulary = case
    vocabulary.save(tmp_path / "v.json")
    loaded = load_vocabulary(tmp_path / "v.json")
    wanted = ("huggingface", vocabulary.size, vocabulary.hash)
    assert (loaded.kind, loaded.size, loaded.hash) == wanted
    assert np.array_equal(loaded.encode([WRITTEN]), vocabulary.encode([WRITTEN]))


def test_plain_text_is_cleaned_into_the_tokens_of_the_corpus(gpt2):
    *_, plain, _ = bring({"path": str(gpt2)}, {"language": "en", "lower_case": True})
    assert plain.decode(plain.encode(["The cat, na\u00efve, sat."])) == ["the cat , naive , sat ."]
    assert plain.decode(plain.encode(TEXTS)) == TEXTS  # tokens stay what they are


def test_a_vocabulary_of_words_has_unknown_ones(tmp_path):
    special = {"eos_token": "</s>", "unk_token": "<unk>"}
    words = {"</s>": 0, "<unk>": 1, "the": 2, "cat": 3, "sat": 4}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    make_other(tmp_path, "llama", vocab_size=5)
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    theirs.save_pretrained(tmp_path)
    model, vocabulary, _ = bring({"path": str(tmp_path)}, None)
    (ids,) = vocabulary.encode(["the dog sat </s>"])
    assert (ids.tolist(), vocabulary.decode([ids])) == ([5, UNK, 7, UNK], ["the <unk> sat <unk>"])
    assert torch.isfinite(model(torch.tensor([[BOS]]))[0, 0, UNK])


def test_pieces_that_mark_blanks_come_back(tmp_path):
    """The kind of tokenizer that Llama 2 and Mistral have: marked blanks, bytes as a fallback."""
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    byte_pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    mark = "\u2581"
    marks = [normalizers.Prepend(mark), normalizers.Replace(" ", mark)]
    tokenizer.normalizer = normalizers.Sequence(marks)
    pieces = [decoders.Replace(mark, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*pieces, decoders.Strip(" ", 1, 0)])
    marks = [*special.values(), *byte_pieces]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=marks, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    held = json.loads(tokenizer.to_str())
    held["added_tokens"] = held["added_tokens"][:3]  # the bytes are tokens like others
    roles = {"bos": 1, "eos": 2, "unk": 0, "all": [0, 1, 2]}
    vocabulary = HuggingFaceVocabulary(held, tokenizer.get_vocab_size(), roles)
    assert_texts_come_back(vocabulary, [*TEXTS, "</s> <unk> na\u00efve \U0001f600"])


def test_a_tokenizer_without_tokens_is_named(gpt2):
    held = json.loads((gpt2 / "tokenizer.json").read_text())
    held = {**held, "added_tokens": [], "model": {**held["model"], "vocab": {}, "merges": []}}
    with pytest.raises(InputError, match="has no tokens"):
        HuggingFaceVocabulary(held, 300, {"bos": 0, "eos": 0, "unk": None, "all": []})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    generator = np.random.default_rng(0)
    mixed = (" ".join(generator.permutation(TEXTS)).split() for _ in range(60))
    texts = [" ".join(words[: generator.integers(5, 30)]) for words in mixed]
    return write_corpus(tmp_path_factory.mktemp("corpus"), texts, 40) / "documents.parquet"


def fit(corpus, folder, source, training=None):
    config = {"family": "huggingface", "architecture": {"path": str(source)}}
    config["training"] = training or {}
    cleaning = {"language": "en"}
    fit_files(corpus, None, config, 1, CPU, folder / "m", folder / "checkpoints", cleaning)
    return json.loads((folder / "m" / "model.json").read_text())


@pytest.mark.parametrize("family", MAKERS)
def test_a_model_is_taken_as_it_is(family, corpus, tmp_path):
    source = tmp_path / "source"
    theirs = MAKERS[family](source)
    description = fit(corpus, tmp_path, source)
    model, vocabulary, _ = load_model(tmp_path / "m")
    original, external, _ = bring({"path": str(source)}, {"language": "en"})
    assert vocabulary.hash == external.hash
    for name, tensor in original.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name
    assert description["parameters"] == sum(p.numel() for p in theirs.parameters())
    assert description["source"]["weights"] == {WEIGHTS: provenance.content_hash(source / WEIGHTS)}
    (row,) = pq.read_table(tmp_path / "m" / "training.parquet").to_pylist()
    table = pq.read_table(corpus).to_pylist()
    valid = [line["text"] for line in table if line["split"] == "valid"]
    summary = measure(model, vocabulary, valid)
    assert row["loss"] == pytest.approx(math.log(summary["perplexity"]["token"]))
    assert description["valid_loss"] == row["loss"]
    assert same(*(texts_of(one, {"kind": "nucleus"}) for one in (model, original)))


def test_a_model_is_trained_further(corpus, tmp_path):
    make_gpt2(tmp_path / "source", dropout=0.1)
    start = fit(corpus, tmp_path / "a", tmp_path / "source")
    training = {"maximum_epochs": 3, "learning_rate": 0.01, "warmup_steps": 1, "batch_tokens": 256}
    end = fit(corpus, tmp_path / "b", tmp_path / "source", training)
    assert end["valid_loss"] < start["valid_loss"] - 1
    model, vocabulary, _ = load_model(tmp_path / "b" / "m")
    assert torch.equal(model.output.linear.weight, model.body.wte.weight)  # still tied
    # What is trained on the corpus writes its tokens: nothing is cleaned.
    assert vocabulary.describe()["cleaning"] is None
    assert len(pq.read_table(tmp_path / "b" / "m" / "training.parquet")) > 1


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def damaged(folder):
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[: len(whole) // 2])


def with_nan(folder):
    tensors = load_file(folder / WEIGHTS)
    tensors["transformer.h.0.ln_1.bias"][3] = float("nan")
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})


def without(pattern, instead=None):
    def spoil(folder):
        for path in folder.glob(pattern):
            path.rename(folder / instead) if instead else path.unlink()

    return spoil


def described(**changes):
    return lambda folder: change_config(folder, **changes)


def with_code(folder):
    described(model_type="mine", auto_map={"AutoConfig": "mine.Config"})(folder)
    (folder / "mine.py").write_text("raise SystemExit('foreign code ran')")


def with_ten_more(folder):
    make_tokenizer(folder, {"eos_token": END}, 310)


def without_end(folder):
    make_tokenizer(folder, {"unk_token": "<unk>"})
    change_config(folder, eos_token_id=None)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (without(WEIGHTS, "pytorch_model.bin"), r"pickled \(pytorch_model\.bin\).*safetensors"),
        (without(WEIGHTS), r"has no weights \(\*\.safetensors\)"),
        (damaged, "holds no causal language model to load"),
        (with_nan, r"model\.safetensors: 1 of the \d+ numbers of 'transformer\.h\.0\.ln_1\.bias'"),
        (without("config.json"), "has no config.json"),
        (described(model_type="no-such-model"), "holds no causal language model.*no-such-model"),
        (with_code, "holds no causal language model to load"),
        (described(n_layer=3), "do not fit config.json: transformer.h.2"),
        (without("tokenizer*.json"), "holds no tokenizer.*tokenizer.json"),
        (with_ten_more, "the tokenizer has the id 30[0-9], but the model has only 300 ids"),
        (without_end, "no token ends a document"),
    ],
)
def test_a_folder_that_is_not_whole_is_named(spoil, message, gpt2, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(gpt2, folder)
    spoil(folder)
    with pytest.raises(InputError, match=message) as error:
        bring({"path": str(folder)}, None)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_token_beyond_the_embedding_is_said_with_what_to_do(gpt2, tmp_path):
    """Oracle: the model before the token was added, once what is said has been done."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(gpt2)
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    theirs = transformers.AutoModelForCausalLM.from_pretrained(gpt2)
    for done in (theirs, tokenizer):
        done.save_pretrained(tmp_path)
    said = r"'\[PAD\]' was added.*resize_token_embeddings"
    check_refused(said, bring, {"path": str(tmp_path)}, None)
    theirs.resize_token_embeddings(len(tokenizer))
    theirs.save_pretrained(tmp_path)
    perplexities = []
    for folder in (gpt2, tmp_path):
        ours, vocabulary, _ = bring({"path": str(folder)}, None)
        texts = (ScoredText(place, text, None) for place, text in enumerate(TEXTS))
        found = measure(ours, vocabulary, texts, text="raw")
        perplexities.append(found["perplexity"]["token"])
    assert perplexities[0] == pytest.approx(perplexities[1], rel=1e-6)


def test_what_cannot_be_stepped_through_or_found_and_wrong_options_are_named(tmp_path, monkeypatch):
    make_tokenizer(tmp_path, {"eos_token": "</s>"})
    config = transformers.MambaConfig(vocab_size=300, hidden_size=16, num_hidden_layers=1)
    transformers.MambaForCausalLM(config).save_pretrained(tmp_path)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    nowhere = {"path": "nobody/nothing", "revision": "0" * 40}
    cases = {
        "mamba models cannot be stepped through": {"path": str(tmp_path)},
        "'nobody/nothing' is no folder, and no model": nowhere,
        "path": {},
        "trust_remote_code: unknown key": {"path": "x", "trust_remote_code": True},
        "revision: belongs to a name on the hub": {"path": ".", "revision": "main"},
    }
    check_refusals(bring, {words: (given, None) for words, given in cases.items()})


def test_the_hub_is_asked_for_safe_files_of_one_commit(gpt2, monkeypatch, tmp_path):
    commit = "c0ffee" * 6 + "c0ff"
    snapshot = tmp_path / "snapshots" / commit
    shutil.copytree(gpt2, snapshot)
    asked = []

    def download(name, **options):
        asked.append((name, options["revision"], options["allow_patterns"]))
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    *_, source = bring({"path": "somebody/gpt2", "revision": "main"}, None)
    assert (source["path"], source["revision"]) == ("somebody/gpt2", commit)
    model, opened = open_scorer("some-one/tiny.model")
    assert opened.description["source"]["path"] == "some-one/tiny.model"
    assert model is opened.model
    assert not model.training
    names = [("somebody/gpt2", "main"), ("some-one/tiny.model", None)]
    assert [request[:2] for request in asked] == names
    for *_, patterns in asked:
        assert not [pattern for pattern in patterns if pattern.endswith((".bin", ".py", ".pt"))]


def test_a_vocabulary_belongs_to_the_other_families(corpus, gpt2, tmp_path):
    ClosedVocabulary(["a"], 0).save(tmp_path / "v.json")
    config = {"family": "huggingface", "architecture": {"path": str(gpt2)}}
    with pytest.raises(InputError, match="brings its own vocabulary"):
        fit_files(corpus, tmp_path / "v.json", config, 1, CPU, tmp_path / "m", tmp_path / "c")
    with pytest.raises(InputError, match="vocabulary: is missing"):
        fit_files(corpus, None, {"family": "lstm"}, 1, CPU, tmp_path / "m", tmp_path / "c")


def test_bfloat16_keeps_the_frequencies_of_places_and_a_row_needs_its_whole_cache(case):
    """Oracles: the float32 buffers, rotary frequencies of Llama; sizes of a cache by the config."""
    _, ours, _ = case
    model = copy.deepcopy(ours)
    assert generation.set_precision(model, "bfloat16") == "bfloat16"
    for (name, before), after in zip(ours.named_buffers(), model.buffers(), strict=True):
        if name.endswith("inv_freq"):
            assert after.dtype == torch.float32
            assert torch.equal(after, before)
    assert next(model.parameters()).dtype == torch.bfloat16
    theirs, ours, _ = case
    config = theirs.config
    heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    width = config.hidden_size // config.num_attention_heads
    places = -(-40 // CACHE_STEP) * CACHE_STEP
    cache = config.num_hidden_layers * 2 * heads * width * places * 4
    expected = cache + generation.VOCABULARY_BYTES * ours.vocabulary_size
    assert generation.bytes_per_row(ours, 40) == expected


@torch.no_grad()
def log_likelihood(folder, text):
    """Score a short text, its end included, by the library alone; return tokens too."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    whole = torch.tensor([[tokenizer.bos_token_id, *ids, tokenizer.eos_token_id]])
    assert whole.shape[1] <= CONTEXT
    logits = model(whole[:, :-1]).logits[0].double()
    # what no text can hold has no probability: special tokens but the end, rows without a token
    special = set(tokenizer.all_special_ids) - {tokenizer.eos_token_id, tokenizer.unk_token_id}
    none = [*special, *range(len(tokenizer), logits.shape[1])]
    logits[:, none] = -torch.inf
    found = logits.log_softmax(-1).gather(1, whole[0, 1:, None])
    return float(found.sum()), len(ids) + 1


def run(monkeypatch, command, *arguments):
    monkeypatch.setattr("sys.argv", ["x", *map(str, arguments)])
    command.main()


def test_perplexity_of_a_folder_of_hugging_face(folder, tmp_path, monkeypatch, capsys):
    text, rows = tmp_path / "texts.jsonl", tmp_path / "rows.parquet"
    text.write_text("".join(json.dumps({"body": line}) + "\n" for line in TEXTS))
    given = ["--model", folder, "--text", text, "--field", "body", "--per-document", rows]
    run(monkeypatch, perplexity, *given)
    found = json.loads(capsys.readouterr().out)
    expected = [log_likelihood(folder, line) for line in TEXTS]
    assert (found["text"], found["n"]["token"]) == ("raw", sum(count for _, count in expected))
    assert found["log_prob"] == pytest.approx(sum(value for value, _ in expected), rel=1e-5)
    each = pq.read_table(rows).to_pylist()
    wanted = [value for value, _ in expected]
    assert [row["log_likelihood"] for row in each] == pytest.approx(wanted, rel=1e-5)
    record = shards.read_record(rows)
    assert list(record["options"]["source"]["weights"]) == ["model.safetensors"]
    assert record["checkpoint_hash"] is None


def test_pairs_under_a_folder_of_hugging_face(folder, tmp_path, monkeypatch):
    pairs, output = tmp_path / "pairs.jsonl", tmp_path / "pairs.parquet"
    good, bad = TEXTS[0], TEXTS[0].replace("sat on", "on sat")
    pairs.write_text(json.dumps({"good": good, "bad": bad}) + "\n")
    flags = ["--model", folder, "--pairs", pairs, "--output", output]
    library_functions.run_function("contrast", [*map(str, flags)])
    (row,) = pq.read_table(output).to_pylist()
    difference = log_likelihood(folder, good)[0] - log_likelihood(folder, bad)[0]
    assert row["contrastive_entropy"] == pytest.approx(difference, rel=1e-4, abs=1e-4)
    assert row["accuracy"] == float(difference > 0)


def test_what_cannot_be_opened_is_told_in_a_line(folder, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError("no network\nand more")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.json").write_text("{}")
    for name, message in (
        (tmp_path / "no", "no such folder; give a model's folder or its name on the hub"),
        ("./no", "no such folder"),
        (tmp_path / "file", "is a file; give the folder of a model"),
        (tmp_path / "empty", r"has no model\.json and no config\.json of Hugging Face"),
        (tmp_path / "config", "has no weights"),
        ("some/name", "^'some/name' is no folder, and no model of that name .*no network.*check"),
    ):
        for read in (open_any, open_scorer):
            with pytest.raises(InputError, match=message) as caught:
                read(str(name))
            assert "\n" not in str(caught.value)
    text = tmp_path / "a.txt"
    text.write_text("a\n")
    with pytest.raises(InputError, match="cleaned: this model has no corpus"):
        run(monkeypatch, perplexity, "--model", folder, "--text", text, "--cleaned")
    assert is_foreign(str(folder))
    assert END not in str(caught.value)
