"""What a GPU computes, beside a CPU: scores, texts, latents and their weights, training.

Oracles: the CPU, in single precision; steps that are not recorded. Where no GPU is, nothing of this
can be run; ``TESTED_DEVICE=cpu`` tries the tests themselves.
"""

import copy
import logging
import os
from importlib import import_module

import numpy as np
import pytest
import torch

from beyond_perplexity.decoding.generation import set_precision
from beyond_perplexity.decoding.options import parse_decoding
from beyond_perplexity.decoding.rooms import Graphs
from beyond_perplexity.decoding.sampling import draw_tokens
from beyond_perplexity.models import registry
from beyond_perplexity.training import fitting
from beyond_perplexity.vocabulary import EOS, ClosedVocabulary, load_vocabulary
from tests.unit import (
    small_models,
    test_engine,
    test_latent_families,
    test_masked_diffusion,
    test_training,
)

GPU = os.environ.get("TESTED_DEVICE", "cuda")
pytestmark = pytest.mark.skipif(
    GPU == "cuda" and not torch.cuda.is_available(), reason="needs a GPU"
)
data = test_training.data
each_family = pytest.mark.parametrize("family", [*test_engine.FAMILIES, "trigram"])


def on_both(family, size=300):
    """Return the same model on the CPU and on the GPU."""
    model = test_engine.small_model(family, size)
    return model, copy.deepcopy(model).to(registry.choose_device(GPU))


@each_family
@torch.inference_mode()
def test_scores_are_those_of_a_cpu(family):
    cpu, gpu = on_both(family)
    tokens = small_models.prefixes(40, 60, cpu.vocabulary_size)
    expected, found = cpu(tokens), gpu(tokens.to(gpu.device)).cpu()
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=2e-5)


@each_family
@pytest.mark.parametrize("kind", test_engine.KINDS)
def test_texts_are_those_of_a_cpu_and_of_steps_that_are_not_recorded(family, kind, caplog):
    cpu, gpu = on_both(family)
    expected = list(test_engine.engine(cpu, kind).documents(0, 100))
    with caplog.at_level(logging.WARNING):
        found = list(test_engine.engine(gpu, kind).documents(0, 100))
    assert not caplog.records  # all could be recorded
    plain = test_engine.engine(gpu, kind)
    plain._graphs = Graphs(None)
    assert small_models.same(found, list(plain.documents(0, 100)))
    alike = [np.array_equal(a.tokens, b.tokens) for a, b in zip(found, expected, strict=True)]
    assert np.mean(alike) >= 0.95  # a number can fall between two roundings of a sum
    for text, wanted, same in zip(found, expected, alike, strict=True):
        assert text.doc_id == wanted.doc_id
        if same:
            np.testing.assert_allclose(text[2:], wanted[2:], rtol=1e-4, atol=1e-3)


@each_family
def test_rounded_weights_write_texts_that_the_rounded_model_scores(family):
    _, gpu = on_both(family)
    set_precision(gpu)
    texts = list(test_engine.engine(gpu, "ancestral").documents(0, 50))
    cpu = copy.deepcopy(gpu).cpu().float()
    for text in texts:
        limit = 0.05 * (len(text.tokens) + 1) ** 0.5 + 0.02 * len(text.tokens)
        assert text.log_prob == pytest.approx(small_models.rescored(cpu, text), abs=limit)


@pytest.mark.parametrize("name", test_latent_families.LARGER)
@torch.no_grad()
def test_latents_and_their_weights_are_those_of_a_cpu(name):
    modules, drawn_by, batch_of, documents, _ = test_latent_families.LARGER[name]()
    batch, owner = batch_of(*documents), torch.arange(3).repeat_interleave(48)
    random = np.random.default_rng(1)
    uniforms = torch.from_numpy(random.random((144, drawn_by.draws(batch))))
    codes = drawn_by.sample(batch, owner, uniforms, 1.1)
    temperatures = test_latent_families.TEMPERATURES
    log_p = modules[0].log_joint(batch, owner, codes)
    log_q = modules[1].log_prob(batch, owner, codes, temperatures)
    beams = modules[1].beam(batch, 4, 1.0)
    modules, drawn_by, *_ = test_latent_families.LARGER[name]()  # nothing worked out on a CPU
    for module in {id(one): one for one in (*modules, drawn_by)}.values():
        module.to(registry.choose_device(GPU))
    held = [owner, uniforms, codes]
    batch, (owner, uniforms, given) = batch.to(GPU), [tensor.to(GPU) for tensor in held]
    drawn = drawn_by.sample(batch, owner, uniforms, 1.1)
    assert (drawn.cpu() == codes).all(1).double().mean() >= 0.98
    found = modules[0].log_joint(batch, owner, given)
    assert found.device.type == GPU
    torch.testing.assert_close(found.cpu(), log_p, atol=2e-3, rtol=1e-5)
    found = modules[1].log_prob(batch, owner, given, temperatures)
    torch.testing.assert_close(found.cpu(), log_q, atol=5e-3, rtol=1e-5)
    found = modules[1].beam(batch, 4, 1.0)
    assert (found.cpu() == beams).all(-1).double().mean() >= 0.75


@pytest.mark.skipif(GPU == "cpu", reason="has none of these kernels")
@pytest.mark.parametrize("sizes", [(3, 2, 64), (40, 3, 24), (500, 2, 8), (7, 1, 128)])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_attention_to_a_cache_is_that_of_torch(kind, sizes):
    rows, heads, size = sizes
    torch.manual_seed(0)
    joint = torch.randn(rows, 1, 3 * heads * size, device=GPU).to(kind)
    keys, values = torch.randn(2, rows, heads, 100, size, device=GPU).to(kind)
    lengths = torch.randint(0, 100, (rows,), device=GPU)
    asked, key, value = joint.view(rows, 3, heads, 1, size).unbind(1)
    whole, mixed = [keys.clone(), values.clone()], lengths[:, None, None, None]
    for cache, new in zip(whole, (key, value), strict=True):
        cache.scatter_(2, mixed.expand(-1, heads, 1, size), new)
    below = (torch.arange(100, device=GPU) <= lengths[:, None])[:, None, None]
    attend = torch.nn.functional.scaled_dot_product_attention
    wanted = attend(asked.float(), *(part.float() for part in whole), attn_mask=below)
    found = cached_attention().attend_and_keep(joint, keys, values, lengths)
    assert torch.equal(keys, whole[0])
    assert torch.equal(values, whole[1])
    tolerance = {} if kind == torch.float32 else {"atol": 2e-2, "rtol": 2e-2}
    torch.testing.assert_close(found.float(), wanted, **tolerance)


def cached_attention():
    return import_module("beyond_perplexity.models.cached_attention")


@pytest.mark.skipif(GPU == "cpu", reason="has none of these kernels")
@pytest.mark.parametrize("name", ["nucleus", "typical"])
@pytest.mark.parametrize("size", [7, 1024, 10_000])
def test_what_is_drawn_without_a_sort_is_what_a_sort_draws(name, size):
    """Oracle: the CPU's sort. Logits on a grid, so that many tokens have one weight."""
    torch.manual_seed(0)
    logits = (3 * torch.randn(300, size) * 4).round() / 4
    numbers = torch.rand(300, dtype=torch.float64)
    for mass in (0.1, 0.9, 1.0):
        options = parse_decoding({"kind": name, "mass": mass})
        wanted = draw_tokens(logits.clone(), numbers, options)
        found = draw_tokens(logits.to(GPU), numbers.to(GPU), options)
        alike = found.token.cpu() == wanted.token
        assert alike.double().mean() >= 0.98  # exp is another by a bit, and with it a rank
        for one, two in zip(found[1:], wanted[1:], strict=True):
            torch.testing.assert_close(one.cpu()[alike], two[alike], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("precision", ["auto", "32"])
@pytest.mark.parametrize("family", ["cnn", "gru", "lstm", "transformer"])
def test_training_ends_where_that_on_a_cpu_does(family, precision, data, tmp_path):
    """Dropout draws other numbers on a GPU: without it, up to rounding."""
    training = {**test_training.TRAINING, "precision": precision}
    architecture = {**small_models.TINY[family], "dropout": 0.0}
    config = {"family": family, "architecture": architecture, "training": training}
    files = data / "documents.parquet", data / "vocabulary.json"
    losses = {}
    for device in ("cpu", GPU):
        chosen = registry.choose_device(device)
        folder, points = tmp_path / device, tmp_path / f"{device}-checkpoints"
        fitting.fit_files(*files, config, 1, chosen, folder, points)
        model, _, _ = registry.load_model(folder, "cpu")
        losses[device] = mean_loss(model, files[1])
    assert losses[GPU] == pytest.approx(losses["cpu"], rel=0.02 if precision == "auto" else 1e-3)


@torch.inference_mode()
def mean_loss(model, vocabulary):
    """Give the mean of -ln p of counting words, of each that has one before it."""
    words = [[f"w{(start + step) % 9}" for step in range(20)] for start in range(9)]
    held = load_vocabulary(vocabulary)
    tokens = torch.from_numpy(np.stack(held.encode([" ".join(row) for row in words]))).long()
    steps = model(tokens[:, :-1]).log_softmax(-1).gather(2, tokens[:, 1:, None])
    return -float(steps.mean())


@pytest.mark.parametrize("kind", ["ancestral", "nucleus", "beam"])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_models_of_hugging_face_write_there_what_they_write_on_a_cpu(name, kind, tmp_path):
    """Their caches are no tensors of ours: steps are made one operation at a time."""
    pytest.importorskip("transformers")
    models = import_module("tests.unit.huggingface_models")
    bring = import_module("beyond_perplexity.models.huggingface_bring").bring
    getattr(models, f"make_{name}")(tmp_path)
    cpu, _, _ = bring({"path": str(tmp_path)}, None)
    gpu = copy.deepcopy(cpu).to(registry.choose_device(GPU))
    expected = list(test_engine.engine(cpu, kind).documents(0, 40))
    found = list(test_engine.engine(gpu, kind).documents(0, 40))
    alike = [np.array_equal(a.tokens, b.tokens) for a, b in zip(found, expected, strict=True)]
    assert np.mean(alike) >= 0.95


def alike_and_close(found, expected):
    """Say which rows were drawn the same; their numbers are equal up to rounding."""
    same = (found.tokens == expected.tokens) & (found.cut == expected.cut)
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one[same], two[same], rtol=1e-4, atol=1e-3)
    return same.mean()


@pytest.mark.parametrize("proposal", ["own", "answer", "mixture"])
def test_thoughts_are_those_of_a_cpu(proposal):
    pytest.importorskip("transformers")
    reference = import_module("tests.unit.thoughts_reference")
    draws = import_module("beyond_perplexity.importance.thought_draws")
    thoughts = import_module("beyond_perplexity.importance.thoughts")
    _, cpu = reference.small_reasoner()
    gpu = copy.deepcopy(cpu).to(registry.choose_device(GPU))
    prompt, answer = np.arange(23, 33), np.array([43, 44, 1])
    shown = np.arange(23, 39) if proposal != "own" else np.empty(0, np.int64)
    asked = draws.Question(0, prompt, shown, answer, 3)
    ends = draws.ThoughtEnds(np.array([5]), np.array([EOS]))
    options = draws.ThoughtOptions(proposal, 0.5, 24)
    expected, found = (
        thoughts.draw_thoughts(
            thoughts.read_question(model, asked, 24), ends, options, range(80), 1
        )
        for model in (cpu, gpu)
    )
    assert 0 < expected.cut.sum() < 80
    assert alike_and_close(found, expected) >= 0.95
    beside = [
        thoughts.answer_beside(thoughts.read_question(model, asked, 24), ends, 24, np.array([5]))
        for model in (cpu, gpu)
    ]
    assert np.allclose(*beside, rtol=1e-4, atol=1e-3)


@torch.no_grad()
def unmasked(model, vocabulary):
    """Return texts that a masked model writes, the sums of one, and its steps of sure words."""
    texts = [
        (one.instance.arrays["tokens"], one.latents)
        for one in model.simulate(1, "t", range(200), 12, vocabulary)
    ]
    batch = test_masked_diffusion.batch_of([4, 3, 8, 5, 6]).to(model.device)
    steps = model.deterministic_log_probs(batch)
    return texts, float(model.exact_log_prob(batch)[0]), np.asarray(steps)


@pytest.mark.parametrize("name", ["own", "bert", "roberta"])
def test_masked_models_write_and_score_what_they_do_on_a_cpu(name, tmp_path):
    if name == "own":
        cpu, vocabulary = (
            test_masked_diffusion.make(double=False),
            ClosedVocabulary(list("abcdef"), 3),
        )
    else:
        pytest.importorskip("transformers")
        models = import_module("tests.unit.huggingface_models")
        masked = import_module("beyond_perplexity.models.latents.masked_huggingface")
        models.make_masked(tmp_path, roberta=name == "roberta")
        cpu, vocabulary, _ = masked.bring_masked({"path": str(tmp_path)}, {"language": "en"})
        lengths = test_masked_diffusion.LENGTHS
        cpu.lengths = masked.WindowLengths(lengths, cpu.shapes["window"])
    gpu = copy.deepcopy(cpu).to(registry.choose_device(GPU))
    expected, found = unmasked(cpu, vocabulary), unmasked(gpu, vocabulary)
    alike = [
        all(np.array_equal(one, two) for one, two in zip(ours, theirs, strict=True))
        for ours, theirs in zip(found[0], expected[0], strict=True)
    ]
    assert np.mean(alike) >= 0.95
    assert found[1] == pytest.approx(expected[1], abs=1e-3)
    np.testing.assert_allclose(found[2], expected[2], atol=1e-3)
