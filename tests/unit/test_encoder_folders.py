"""Evaluators of equation 9, and of folders of sentence-transformers and Hugging Face.

Oracles: equation 9 by hand from the blocks of a Transformer and from transformers' hidden states of
one text at a time; sentence-transformers on one text at a time, where it is installed.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.semantics.evaluators.contract import load_evaluator
from beyond_perplexity.semantics.evaluators.families import is_installed, package_folder
from beyond_perplexity.semantics.evaluators.sentence_transformers import _LAYERS, check_folder
from beyond_perplexity.semantics.evaluators.transformer import RunLayers
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.evaluator_oracles import check_batches, check_refusals, sigmoid, some_texts
from tests.unit.huggingface_models import TEXTS, make_gpt2, make_tokenizer

WORDS = [f"w{place}" for place in range(20)]
WIDTH, LAYERS = 8, 3
MINILM = pytest.mark.skipif(not is_installed("minilm"), reason="the extra pretrained is not there")
pytestmark = pytest.mark.usefixtures("one_thread")


def make(family="transformer", **architecture):
    torch.manual_seed(2)
    size = {"width": WIDTH, "heads": 2, "layers": LAYERS, "feedforward_size": 16}
    size |= {"context_length": 16} if family == "transformer" else {}
    config = {"family": family, "architecture": {**size, **architecture}}
    return registry.build(config, len(WORDS) + 3).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    model, path = make(), tmp_path_factory.mktemp("run") / "model"
    save_model(path, model, ClosedVocabulary(WORDS, 0), {"preprocessing": {"lower_case": True}})
    return model, path


def loaded(family="transformer", **options):
    given = {key: str(held) if isinstance(held, Path) else held for key, held in options.items()}
    return load_evaluator({"family": family, **given}, device="cpu")


def upper_means(model, ids, layers):
    """Return the means over words of the outputs of the upper blocks, (K, W), of one text."""
    with torch.no_grad():
        stream = model._embed(torch.tensor([[0, *ids]]), model.positions[: 1 + len(ids)])
        held = []
        for block in model.blocks:
            stream = block(stream)
            held.append(stream)
        held[-1] = model.final_norm(stream)
    return np.array([part[0, 1:].double().mean(0).numpy() for part in held[-layers:]])


@pytest.mark.parametrize("layers", [1, 2, LAYERS])
def test_equation_9_by_hand(layers, folder):
    model, path = folder
    evaluator = loaded(model=path, layers=layers)
    texts = some_texts(8, 12)
    pairs = list(zip(texts[:4], texts[4:], strict=True))
    found = evaluator.score(pairs)
    for place, pair in enumerate(pairs):
        first, second = (
            upper_means(model, [3 + WORDS.index(word) for word in text.split()], layers)
            for text in pair
        )
        product = (first * second).sum() / layers
        assert found["inner"][place] == pytest.approx(sigmoid(product), abs=1e-5)
        assert found["inner_scaled"][place] == pytest.approx(sigmoid(product / WIDTH), abs=1e-6)
    assert evaluator.cleaning.apply(["W1  W2"]) == ["w1 w2"]
    assert evaluator.texts == "tokens"


def test_states_do_not_depend_on_the_batch_and_long_texts_are_cut_and_counted(folder):
    evaluator = loaded(model=folder[1])
    encoder = evaluator.encoder
    texts = some_texts(60, 18)
    long = sum(len(text.split()) > 15 for text in texts)
    assert encoder.limit == 15
    check_batches(encoder, texts, (1, 7))
    assert encoder.truncated == 4 * long > 0
    unknown = encoder.encode(["x y", "", "<unk> </s>", "w1 <unk> w2", "w1 w2"])
    assert np.isnan(unknown[:3]).all()
    np.testing.assert_array_equal(unknown[3], unknown[4])
    described = evaluator.describe()
    assert described["truncated"] == 4 * long
    assert described["title"] == "Transformer (model)"


def test_models_with_other_layers_of_attention_or_without_any(folder):
    words = ClosedVocabulary(WORDS, 0)
    encoder = RunLayers(make("transformer-adaptive-softmax", cutoffs=[0.5]), words, 2)
    assert encoder.encode(["w1 w2"]).shape == (1, 2 * WIDTH)
    config = {"family": "lstm", "architecture": {"embedding_size": 4, "hidden_size": 4}}
    recurrent = registry.build(config, len(WORDS) + 3)
    with pytest.raises(InputError, match="lstm has no layers of attention that are read here"):
        RunLayers(recurrent, words, 1)
    with pytest.raises(InputError, match="layers: is 9, but the Transformer has 3"):
        loaded(model=folder[1], layers=9)
    with pytest.raises(InputError, match="give model, of a run, or path"):
        loaded()


def make_bert(folder, layers=2):
    marks = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    size = make_tokenizer(folder, marks)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    sizes |= {"max_position_embeddings": 24, "num_hidden_layers": layers}
    config = BertConfig(vocab_size=size, initializer_range=0.5, **sizes)
    model = BertModel(config).eval()
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("make_model", [make_bert, make_gpt2])
def test_equation_9_of_a_folder_of_hugging_face(make_model, tmp_path):
    """A text at a time through transformers; none of these texts has a special token."""
    model = make_model(tmp_path)
    evaluator = loaded(path=tmp_path, layers=2)
    assert evaluator.texts == "raw"
    texts = ["the cat sat .", "the dog sat on the log .", "a rose", "the low"]
    vectors = []
    for text in texts:
        ids = evaluator.encoder._tokenizer(text)["input_ids"]
        with torch.no_grad():
            body = model.base_model
            held = body(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
        vectors.append(np.array([part[0].double().mean(0).numpy() for part in held[-2:]]))
    found = evaluator.score([(texts[0], texts[1]), (texts[2], texts[3])])
    for place, (first, second) in enumerate(((0, 1), (2, 3))):
        product = (vectors[first] * vectors[second]).sum() / 2
        width = vectors[0].shape[1]
        assert found["inner_scaled"][place] == pytest.approx(sigmoid(product / width), abs=1e-4)
    long = evaluator.encoder.encode([" ".join(TEXTS * 4), "the cat"])
    assert evaluator.encoder.truncated == 1
    assert np.isfinite(long).all()


def test_folders_with_pickles_or_code_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"has no config\.json"):
        loaded(path=tmp_path)
    make_bert(tmp_path)
    config = tmp_path / "config.json"
    sound = config.read_text(encoding="utf-8")
    held = json.loads(sound) | {"auto_map": {"AutoModel": "x.Y"}}
    config.write_text(json.dumps(held), encoding="utf-8")
    with pytest.raises(InputError, match="wants code of its own"):
        loaded(path=tmp_path)
    config.write_text(sound, encoding="utf-8")
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="its weights are pickled"):
        loaded(path=tmp_path)


# ---- sentence-transformers ----


def write_folder(folder, kind="models.Transformer", weights="model.safetensors"):
    folder.mkdir(exist_ok=True)
    kind = kind if kind.startswith("my.") else f"sentence_transformers.{kind}"
    modules = [{"idx": 0, "name": "0", "path": "", "type": kind}]
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / weights).write_bytes(b"weights")
    return folder


def test_folders_of_sentence_transformers_are_checked_before_anything_is_loaded(tmp_path):
    folder = write_folder(tmp_path / "whole")
    assert check_folder(folder) == [folder / "model.safetensors"]
    pickled, none = ({"weights": name} for name in ("pytorch_model.bin", "vocab.txt"))
    cases = {
        "names my.code.Layer, whose code is not run": {"kind": "my.code.Layer"},
        "names sentence_transformers.util.http_get, whose code": {"kind": "util.http_get"},
        "are weights that would be unpickled": pickled,
        "has no weights": none,
    }
    paths = {
        words: (write_folder(tmp_path / str(number), **given),)
        for number, (words, given) in enumerate(cases.items())
    }
    check_refusals(
        lambda path: loaded("sentence-transformers", path=path),
        {**paths, "it is not there": (tmp_path / "nowhere",)},
    )
    (folder / "1_Dense").mkdir()
    (folder / "1_Dense" / "pytorch_model.bin").write_bytes(b"weights")
    check_refusals(check_folder, {r"1_Dense.* would be unpickled": (folder,)})
    (folder / "1_Dense" / "pytorch_model.bin").unlink()
    (folder / "config.json").write_text('{"auto_map": {}}', encoding="utf-8")
    check_refusals(check_folder, {"wants code of its own": (folder,)})
    (folder / "modules.json").unlink()
    check_refusals(check_folder, {r"it has no modules\.json": (folder,)})
    check_refusals(loaded, {"give path, of a folder, or package": ("sentence-transformers",)})


@MINILM
def test_a_folder_without_pooling_is_refused_and_every_known_layer_is_one(tmp_path):
    """Oracle: the library imports each of the allowed names as one of its modules."""
    misc = pytest.importorskip("sentence_transformers.util.misc")
    for name in _LAYERS:
        kind = misc.import_from_string(f"sentence_transformers.models.{name}")
        assert issubclass(kind, torch.nn.Module)
    folder = tmp_path / "alone"
    shutil.copytree(package_folder("minilm"), folder)
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    (folder / "modules.json").write_text(json.dumps(modules[:1]), encoding="utf-8")
    with pytest.raises(InputError, match=r"modules\.json: has no layer that makes one vector"):
        loaded("sentence-transformers", path=folder)


@MINILM
def test_minilm_is_that_of_sentence_transformers_and_does_not_depend_on_the_batch():
    sentence_transformers = pytest.importorskip("sentence_transformers")
    evaluator = loaded("sentence-transformers", package="minilm")
    encoder = evaluator.encoder
    texts = ["A man rides a horse.", "the cat", "Two dogs play in the snow .", "the dog sat", "x"]
    model = sentence_transformers.SentenceTransformer(str(package_folder("minilm")), device="cpu")
    wanted = np.array([model.encode(text, show_progress_bar=False) for text in texts])
    found = encoder.encode(texts)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    np.testing.assert_array_equal(np.concatenate([encoder.encode([t]) for t in texts]), found)
    assert np.isnan(encoder.encode(["<unk>", ""])).all()
    assert encoder.truncated == 0
    encoder.encode(["word " * 300])
    assert encoder.truncated == 1
    pairs = [("a man is riding", "a person rides"), ("a man", "the tax law")]
    near, far = evaluator.score(pairs)["similarity"]
    assert near > far
    described = evaluator.describe()
    assert described["title"] == "all-MiniLM-L6-v2"
    assert set(described["versions"]) == {"sentence-transformers", "transformers", "torch"}
    assert (encoder.width, encoder.limit) == (384, 256)
    with pytest.raises(InputError, match="package: glove has no encoder"):
        loaded("sentence-transformers", package="glove")


@MINILM
def test_marks_of_an_encoder_are_no_words():
    """MiniLM puts [CLS] before a text and [SEP] behind it."""
    path = package_folder("minilm")
    encoder = loaded(path=path, layers=1).encoder
    model = BertModel.from_pretrained(path).eval()
    ids = encoder._tokenizer("the cat sat")["input_ids"]
    assert len(ids) == 5
    with torch.no_grad():
        states = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
    wanted = states[1:-1].mean(0).numpy()
    np.testing.assert_allclose(encoder.encode(["the cat sat"])[0], wanted, atol=1e-5)
