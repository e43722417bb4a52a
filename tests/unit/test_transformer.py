"""The Transformer family.

Oracles: torch's nn.TransformerEncoder and Hugging Face's GPT-2 (skipped without transformers), both
given the same weights.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from beyond_perplexity.errors import InputError
from beyond_perplexity.models import registry
from beyond_perplexity.models.transformer import sinusoids

ARCHITECTURE = {"layers": 2, "width": 16, "heads": 4, "feedforward_size": 24, "context_length": 80}


def make(size=20, **changes):
    torch.manual_seed(0)
    config = {"family": "transformer", "architecture": {**ARCHITECTURE, **changes}}
    model = registry.build(config, size).eval()
    for parameter in model.parameters():  # norms and biases must matter too
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def prefixes(rows=3, length=9, size=20):
    tokens = torch.randint(3, size, (rows, length), generator=torch.Generator().manual_seed(1))
    tokens[:, 0] = 0
    return tokens


def encoder_like(model):
    """Build nn.TransformerEncoder with the weights of our blocks."""
    layer = nn.TransformerEncoderLayer(16, 4, 24, 0.0, "gelu", batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(16), enable_nested_tensor=False)
    for theirs, ours in zip(encoder.layers, model.blocks, strict=True):
        theirs.self_attn.in_proj_weight.data = ours.attention_input.weight.data
        theirs.self_attn.in_proj_bias.data = ours.attention_input.bias.data
        theirs.self_attn.out_proj.load_state_dict(ours.attention_output.state_dict())
        theirs.linear1.load_state_dict(ours.feedforward_input.state_dict())
        theirs.linear2.load_state_dict(ours.feedforward_output.state_dict())
        theirs.norm1.load_state_dict(ours.attention_norm.state_dict())
        theirs.norm2.load_state_dict(ours.feedforward_norm.state_dict())
    encoder.norm.load_state_dict(model.final_norm.state_dict())
    return encoder.eval()


@pytest.mark.parametrize("changes", [{}, {"positions": "learned"}, {"tie_weights": False}])
@torch.no_grad()
def test_forward_equals_torchs_encoder(changes):
    model, tokens = make(**changes), prefixes()
    mask = nn.Transformer.generate_square_subsequent_mask(9)
    stream = model.embedding(tokens) * 4 + model.positions[:9]
    expected = encoder_like(model)(stream, mask, is_causal=True) @ model.output.weight.T
    torch.testing.assert_close(model(tokens)[..., 1:], expected[..., 1:], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_forward_equals_gpt2():
    transformers = pytest.importorskip("transformers")
    model, tokens = make(positions="learned"), prefixes()
    config = transformers.GPT2Config(
        vocab_size=20, n_positions=80, n_embd=16, n_layer=2, n_head=4, n_inner=24,
        activation_function="gelu", tie_word_embeddings=False,
    )  # fmt: skip
    theirs = transformers.GPT2LMHeadModel(config).eval()
    theirs.transformer.wte.weight.data = model.embedding.weight * 4
    theirs.transformer.wpe.weight.data = model.positions.data
    theirs.lm_head.weight.data = model.output.weight.data
    theirs.transformer.ln_f.load_state_dict(model.final_norm.state_dict())
    for block, ours in zip(theirs.transformer.h, model.blocks, strict=True):
        block.ln_1.load_state_dict(ours.attention_norm.state_dict())
        block.ln_2.load_state_dict(ours.feedforward_norm.state_dict())
        for conv, linear in (
            (block.attn.c_attn, ours.attention_input),
            (block.attn.c_proj, ours.attention_output),
            (block.mlp.c_fc, ours.feedforward_input),
            (block.mlp.c_proj, ours.feedforward_output),
        ):
            conv.weight.data, conv.bias.data = linear.weight.data.T, linear.bias.data
    expected = theirs(tokens).logits
    torch.testing.assert_close(model(tokens)[..., 1:], expected[..., 1:], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_rows_at_different_positions_step_together():
    model, tokens = make(), prefixes(length=40)
    state = model.initial_state(3, 45)
    for place in range(40):
        _, state = model.step(tokens[:, place], state)
        if place in (7, 33):
            state = state.reset(torch.tensor([1]))
    state = state.select(torch.tensor([2, 1, 1]))
    logits, _ = model.step(torch.tensor([5, 6, 7]), state)
    rows = [[*tokens[2], 5], [*tokens[1, 34:], 6], [*tokens[1, 34:], 7]]
    for row, prefix in enumerate(rows):
        expected = model(torch.tensor([prefix]))[0, -1]
        torch.testing.assert_close(logits[row, 1:], expected[1:], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_the_future_and_other_rows_change_nothing():
    model, tokens = make(), prefixes()
    changed = tokens.clone()
    changed[0, 5:] = 3
    torch.testing.assert_close(model(changed)[0, :5], model(tokens)[0, :5])
    torch.testing.assert_close(model(changed)[1:], model(tokens)[1:])


@pytest.mark.parametrize(
    ("changes", "more"),
    [({}, 0), ({"positions": "learned"}, 80 * 16), ({"tie_weights": False}, 20 * 16)],
)
def test_the_parameter_count_is_the_closed_form(changes, more):
    D, F = 16, 24
    block = 4 * D * D + 4 * D + 2 * D * F + F + D + 4 * D
    assert make(**changes).parameter_count() == 2 * block + 2 * D + 20 * D + more


def test_dropped_words_and_skipped_layers_leave_what_is_left():
    rare = {"dropout": 0.0, "layer_dropout": 1 - 1e-9}  # every block is skipped
    model, tokens = make(**rare).train(), prefixes()
    stream = model.embedding(tokens) * 4 + model.positions[:9]
    torch.testing.assert_close(model.features(tokens), model.final_norm(stream))
    model = make(**rare, embedding_dropout=1 - 1e-9).train()
    expected = model.final_norm(model.positions[:9]).expand(3, 9, 16)
    torch.testing.assert_close(model.features(tokens), expected)


def test_sinusoids_are_those_of_the_paper():
    table = sinusoids(10, 6)
    for place in range(10):
        for pair in range(3):
            angle = place / 10_000 ** (2 * pair / 6)
            assert table[place, pair] == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[place, pair + 3] == pytest.approx(math.cos(angle), abs=1e-6)


def test_too_long_contexts_are_refused():
    with pytest.raises(InputError, match=r"maximum_length: is 81.*context_length is 80"):
        make().initial_state(2, 81)
    with pytest.raises(ValueError, match="81 tokens exceed the context of 80"):
        make()(torch.zeros(1, 81, dtype=torch.int64))
