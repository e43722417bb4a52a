"""The neural families that predict words: what the contract asks of all, and each by itself.

Oracles: the parallel pass, prefixes alone, sums over the vocabulary, counts in closed form; torch's
LSTM, GRU, conv1d with weight_norm and glu, TransformerEncoder and softmaxes, Hugging Face's GPT-2,
with the same weights; definitions in float64 and autograd through them; perturbation.
"""

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from beyond_perplexity import errors, vocabulary
from beyond_perplexity.models import cnn, elman, factored, recurrent_layers, registry, word_softmax
from beyond_perplexity.models.transformer import sinusoids
from beyond_perplexity.models.transformer_adaptive_softmax import Bands
from beyond_perplexity.models.word_softmax import Words, summed_word_log_probs, word_log_probs
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_models import make, prefixes

SIZE = 60
GATES = {"lstm": 4, "gru": 3}
RECURRENT = [
    {"layers": 2, "embedding_size": 8, "hidden_size": 12, "dropout": 0.5},
    {"layers": 1, "embedding_size": 8, "hidden_size": 8},
    {"layers": 1, "embedding_size": 8, "hidden_size": 12, "tie_weights": False},
]
CONVOLUTIONS = [
    {"layers": 3, "embedding_size": 8, "width": 12, "kernel_size": 3, "dropout": 0.5},
    {"layers": 3, "embedding_size": 8, "width": 8, "kernel_size": 4, "bottleneck": 5},
    {"layers": 1, "embedding_size": 8, "width": 12, "kernel_size": 1, "tie_weights": False},
    {"layers": 2, "embedding_size": 8, "width": 12, "weight_normalization": False},
]
BLOCKS = {"layers": 2, "width": 16, "heads": 4, "feedforward_size": 24, "context_length": 80}
BANDS = {**BLOCKS, "width": 32, "cutoffs": [10, 30]}
ELMAN = {"embedding_size": 8, "hidden_size": 12}
CASES = [
    *((family, architecture) for family in GATES for architecture in RECURRENT),
    *(("cnn", architecture) for architecture in CONVOLUTIONS),
    *(("transformer", {**BLOCKS, "positions": how}) for how in ("sinusoidal", "learned")),
    ("transformer-adaptive-softmax", BANDS),
    *(("rnn", {**ELMAN, "classes": classes}) for classes in (None, 7, 1000)),
]
every_case = pytest.mark.parametrize(("family", "architecture"), CASES)
every_gate = pytest.mark.parametrize("family", GATES)
close = partial(torch.testing.assert_close, atol=1e-5, rtol=1e-5)


@every_case
@torch.no_grad()
def test_steps_equal_the_parallel_pass(family, architecture):
    """Over several buckets of the caches that have some."""
    model = make(family, architecture, SIZE, noise=0.1)
    tokens = prefixes(length=70, size=SIZE)
    expected, state = model(tokens), model.initial_state(3, 70)
    for place in range(70):
        logits, state = model.step(tokens[:, place], state)
        close(logits[:, 1:], expected[:, place, 1:])


@every_case
@torch.no_grad()
def test_selected_and_reset_rows_go_on_alone(family, architecture):
    model, tokens = make(family, architecture, SIZE, noise=0.1), prefixes(size=SIZE)
    state = model.initial_state(3, 9)
    for place in range(7):
        _, state = model.step(tokens[:, place], state)
    state = state.select(torch.tensor([2, 0, 0])).reset(torch.tensor([1]))
    logits, _ = model.step(torch.tensor([5, 0, 6]), state)
    for row, prefix in enumerate([[*tokens[2, :7], 5], [0], [*tokens[0, :7], 6]]):
        close(logits[row, 1:], model(torch.tensor([prefix]))[0, -1, 1:])


@every_case
@pytest.mark.parametrize("open_vocabulary", [False, True])
@torch.no_grad()
def test_probabilities_sum_to_one_and_those_of_marks_to_none(family, architecture, open_vocabulary):
    logits = make(family, architecture, SIZE, open_vocabulary, noise=0.1)(prefixes(size=SIZE))
    p = logits.double().softmax(-1)
    torch.testing.assert_close(p.sum(-1), torch.ones(3, 9, dtype=torch.float64))
    assert torch.isneginf(logits[..., 0]).all()
    assert (torch.isneginf(logits[..., 2]) == open_vocabulary).all()
    assert torch.isfinite(logits[..., [1, *range(3, SIZE)]]).all()
    assert (p[..., [1, *range(3, SIZE)]] > 0).all()


@pytest.mark.parametrize(
    ("family", "architecture", "words"),
    [
        ("gpt", {}, r"family: is 'gpt'; allowed are .*lstm, .*transformer, "),
        ("sentence-rnn", {"size": 0}, "size: is 0, expected at least 1"),
        ("sentence-rnn", {"distortion": 0.1}, "unknown key"),
        ("lstm", {"layer": 1}, "architecture.layer: unknown key; did you mean 'layers'"),
        ("lstm", {"layers": "two"}, "architecture.layers: is 'two', expected int"),
        ("lstm", {"layers": True}, "architecture.layers: is True"),
        ("lstm", {"dropout": 1.0}, "dropout: is 1.0"),
        ("lstm", {"initialization": "he"}, "is 'he', expected one of 'torch', 'xavier'"),
        ("lstm", 3, "expected an object"),
        ("cnn", {"bottleneck": 0}, "bottleneck: is 0, expected at least 1"),
        ("cnn", {"kernel_size": 0}, "kernel_size: is 0"),
        ("cnn", {"layer_dropout": 1.0}, "layer_dropout: is 1.0"),
        ("cnn", {"kernel": 3}, "architecture.kernel: unknown key"),
        ("transformer", {**BLOCKS, "width": 18}, "width: is 18"),
        ("transformer", {"positions": "none"}, "one of 'sinusoidal', 'learned'"),
        ("rnn", {"classes": 0}, "architecture: classes: is 0, expected at least 1"),
        ("rnn", {"layers": 2}, "architecture.layers: unknown key; allowed are embedding_size"),
        ("rnn", {"hidden_size": 2.5}, "architecture.hidden_size: is 2.5, expected int"),
        ("transformer-adaptive-softmax", {**BANDS, "cutoffs": [0.4, 0.1]}, "expected rising num"),
        ("transformer-adaptive-softmax", {**BANDS, "cutoffs": []}, "cutoffs: are "),
        ("transformer-adaptive-softmax", {**BANDS, "cutoffs": "0.1"}, "expected a list of float"),
        (
            "transformer-adaptive-softmax",
            {**BANDS, "reduction": 8, "cutoffs": [0.1, 0.4, 0.6]},
            "reduction: is 8",
        ),
    ],
)
def test_wrong_options_are_named(family, architecture, words):
    with pytest.raises(errors.InputError, match=words):
        registry.find(family)(SIZE, architecture)


def gated_layers(gates, E, H, layers):
    return sum(gates * H * ((H if n else E) + H) + 2 * gates * H for n in range(layers))


def tied_output(E, H, tied):
    """Count embedding, projection and output layer with biases."""
    return SIZE * E + SIZE + (SIZE * H if not tied else H * E + E if E != H else 0)


def recurrent_count(family, E, H, layers, tie_weights=True, **_):
    return gated_layers(GATES[family], E, H, layers) + tied_output(E, H, tie_weights)


def cnn_count(E, D, L, K=4, middle=None, normalized=True, tied=True):
    def gated(inputs, outputs, kernel):
        return 2 * outputs * inputs * kernel + (4 if normalized else 2) * outputs  # bias, length

    inner = gated(D, D, K)
    if middle:
        inner = gated(D, middle, 1) + gated(middle, middle, K) + gated(middle, D, 1)
    return gated(E, D, K) + (L - 1) * inner + tied_output(E, D, tied)


def blocks_count(D, F=24):
    return 2 * (4 * D * D + 4 * D + 2 * D * F + F + D + 4 * D) + 2 * D


def bands_count(tied, tied_projections, D=32):
    tables = 10 * D + 20 * (D // 4) + 30 * (D // 16)
    tails = D * (D // 4) + D * (D // 16)
    own = (0 if tied else tables) + (0 if tied_projections else tails)
    return blocks_count(D) + tables + D * D + tails + 2 * D + own


TIES = [
    {"tie_weights": True, "tie_projections": True},
    {"tie_weights": True, "tie_projections": False},
    {"tie_weights": False, "tie_projections": False},
]
COUNTS = [
    *(
        (family, own, recurrent_count(family, own["embedding_size"], own["hidden_size"], **own))
        for family in GATES
        for own in RECURRENT
    ),
    ("cnn", CONVOLUTIONS[0], cnn_count(8, 12, 3, 3)),
    ("cnn", CONVOLUTIONS[1], cnn_count(8, 8, 3, 4, middle=5)),
    ("cnn", CONVOLUTIONS[2], cnn_count(8, 12, 1, 1, tied=False)),
    ("cnn", CONVOLUTIONS[3], cnn_count(8, 12, 2, normalized=False)),
    ("transformer", BLOCKS, blocks_count(16) + SIZE * 16),
    ("transformer", {**BLOCKS, "positions": "learned"}, blocks_count(16) + (SIZE + 80) * 16),
    ("transformer", {**BLOCKS, "tie_weights": False}, blocks_count(16) + 2 * SIZE * 16),
    *(("transformer-adaptive-softmax", {**BANDS, **t}, bands_count(*t.values())) for t in TIES),
    ("rnn", ELMAN, SIZE * 8 + 12 * (8 + 12) + SIZE * 13),
]


@pytest.mark.parametrize(("family", "architecture", "count"), COUNTS)
def test_the_parameter_count_is_the_closed_form(family, architecture, count):
    assert make(family, architecture, SIZE).parameter_count() == count
    if family == "rnn":
        model = make(family, {**architecture, "classes": 7}, SIZE)
        assert model.parameter_count() == count + len(model.output.ends) * 13


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        *((f, {"layers": 2, "embedding_size": 8, "hidden_size": 40}) for f in GATES),
        ("cnn", {"layers": 1, "width": 40}),
    ],
)
def test_locked_dropout_takes_the_same_elements_at_all_positions_and_steps_have_none(family, sizes):
    locked = {**sizes, "dropout": 0.5, "locked_dropout": True, "tie_weights": False}
    model = make(family, locked).train()
    zero = model.features(prefixes()) == 0  # (3, 9, 40): dropped elements are exactly zero
    assert torch.equal(zero, zero[:, :1].expand_as(zero))
    assert 0.2 < zero.float().mean() < 0.8
    assert not torch.equal(zero[0], zero[1])
    first, _ = model.step(torch.zeros(3, dtype=torch.int64), model.initial_state(3, 1))
    again, _ = model.step(torch.zeros(3, dtype=torch.int64), model.initial_state(3, 1))
    assert torch.equal(first, again)


def test_kinds_of_dropout_keep_the_mean_and_leave_what_is_left():
    torch.manual_seed(0)
    tokens = torch.arange(2000).repeat(2, 1)  # each id twice
    words = factored.drop_words(torch.ones(2, 2000, 3), tokens, 2000, 0.4, True)
    assert words.unique().tolist() == [0.0, pytest.approx(1 / 0.6)]
    assert torch.equal(words[0], words[1])
    assert torch.equal(words[..., 0], words[..., 2])
    assert words.mean() == pytest.approx(1, abs=0.06)  # three standard deviations: 0.055
    locked = factored.drop(torch.ones(500, 4, 4), 0.4, True, locked=True)
    assert torch.equal(locked[:, 0], locked[:, 3])
    assert locked.mean() == pytest.approx(1, abs=0.06)
    skipped = [factored.skips_layer(0.25, True) for _ in range(4000)]
    assert sum(skipped) / 4000 == pytest.approx(0.25, abs=0.025)
    assert not factored.skips_layer(0.25, False)
    rare = {"dropout": 0.0, "layer_dropout": 1 - 1e-9}  # every block is skipped
    model, tokens = transformer(**rare).train(), prefixes()
    stream = model.embedding(tokens) * 4 + model.positions[:9]
    torch.testing.assert_close(model.features(tokens), model.final_norm(stream))
    model = transformer(**rare, embedding_dropout=1 - 1e-9).train()
    expected = model.final_norm(model.positions[:9]).expand(3, 9, 16)
    torch.testing.assert_close(model.features(tokens), expected)


@every_gate
@pytest.mark.parametrize("architecture", RECURRENT)
@torch.no_grad()
def test_passes_and_steps_equal_the_fused_layers(architecture, family):
    model, tokens = make(family, architecture), prefixes()
    hidden, _ = model.layers(model.embedding(tokens))
    if model.narrow is not None:
        hidden = model.narrow(hidden)
    expected = hidden @ model.output.weight.T + model.output.bias
    state = model.initial_state(3, 9)
    for place in range(9):
        logits, state = model.step(tokens[:, place], state)
        close(logits[:, 1:], expected[:, place, 1:], rtol=0)
    close(model(tokens)[..., 1:], expected[..., 1:], rtol=0)


@every_gate
def test_layers_apart_equal_the_fused_stack(family):
    model = make(family, RECURRENT[0])
    stream = model.embedding(prefixes())
    torch.testing.assert_close(model._layer_by_layer(stream), model.layers(stream)[0])


@every_gate
@pytest.mark.parametrize("tied", [True, False])
def test_weights_by_xavier(family, tied):
    """Oracle: the bound and variance of Glorot & Bengio (2010), for every gate by itself."""
    sizes = {"layers": 2, "embedding_size": 60, "hidden_size": 90, "tie_weights": tied}
    model = make(family, {**sizes, "initialization": "xavier"}, 300).requires_grad_(False)
    matrices = [model.embedding.weight, model.output.weight]
    matrices += [] if model.narrow is None else [model.narrow.weight]
    for name, weight in model.layers.named_parameters():
        matrices += weight.chunk(GATES[family]) if "weight" in name else []
    for matrix in matrices:
        limit = (6 / sum(matrix.shape)) ** 0.5
        assert 0.98 * limit < matrix.abs().max() <= limit
        assert float(matrix.var()) == pytest.approx(limit**2 / 3, rel=0.05)
    biases = [weight for weight in model.parameters() if weight.dim() == 1]
    assert len(biases) == 5 + (model.narrow is not None)
    assert not any(bias.any() for bias in biases)
    plain, default = (make(family, sizes | o, 300) for o in ({"initialization": "torch"}, {}))
    for one, other in zip(plain.parameters(), default.parameters(), strict=True):
        assert torch.equal(one, other)


def unrolled(layer, stream):
    """Give the units by the definition, in the dtype of the stream."""
    of_input, of_state = (w.detach().to(stream.dtype) for w in (layer.of_input, layer.of_state))
    units, found = stream.new_zeros(len(stream), len(of_state)), []
    for place in range(stream.shape[1]):
        both = torch.cat([stream[:, place], units], 1) @ torch.cat([of_input, of_state], 1).T
        units = 1 / (1 + torch.exp(-both))
        found.append(units)
    return torch.stack(found, 1)


@torch.no_grad()
def test_the_fused_layer_and_its_steps_are_the_recurrence():
    torch.manual_seed(2)
    layer, stream = recurrent_layers.SigmoidLayer(8, 12), torch.randn(5, 30, 8)
    expected = unrolled(layer, stream.double())
    close(layer(stream).double(), expected, atol=1e-6, rtol=0)
    units = torch.zeros(5, 12)
    for place in range(30):
        units = layer.step(stream[:, place], units)
        close(units.double(), expected[:, place], atol=1e-6, rtol=0)


def test_the_gradient_of_the_fused_layer_is_that_of_the_recurrence():
    torch.manual_seed(2)
    layer = recurrent_layers.SigmoidLayer(3, 4).double()
    stream = torch.randn(2, 6, 3, dtype=torch.float64)
    layer(stream).square().sum().backward()
    weights = [w.detach().clone().requires_grad_() for w in (layer.of_input, layer.of_state)]
    units, total = torch.zeros(2, 4, dtype=torch.float64), 0.0
    for place in range(6):
        units = torch.sigmoid(stream[:, place] @ weights[0].T + units @ weights[1].T)
        total = total + units.square().sum()
    for one, other in zip(layer.parameters(), torch.autograd.grad(total, weights), strict=True):
        close(one.grad, other, atol=1e-12, rtol=1e-10)


def classes_by_hand(output, features):
    """Give all probabilities as p(class) p(word | class), float64."""
    words = features.double() @ output.words.weight.double().T + output.words.bias.double()
    words = words.exp().index_fill(1, output.impossible, 0)
    heads = features.double() @ output.classes.weight.double().T + output.classes.bias.double()
    same = output.class_of[:, None] == output.class_of  # (V, V)
    return words / (words @ same.double()) * heads.softmax(1)[:, output.class_of]


@pytest.mark.parametrize("open_vocabulary", [False, True])
@pytest.mark.parametrize("classes", [1, 4, 50, 10_000])
def test_classes_are_the_factorization_written_out(classes, open_vocabulary):
    torch.manual_seed(3)
    output = elman.ClassOutput(12, SIZE, classes, open_vocabulary)
    torch.nn.init.normal_(output.words.bias)
    torch.nn.init.normal_(output.classes.bias)
    features = torch.randn(200, 12)
    expected = classes_by_hand(output, features).log().detach()
    possible = [id for id in range(1, SIZE) if not (open_vocabulary and id == 2)]
    close(output.logits(features)[:, possible].double(), expected[:, possible], rtol=0)
    targets = torch.tensor(possible).repeat(9)[:200]
    chosen = expected.gather(1, targets[:, None])[:, 0]
    close(output.log_probs(features, targets), chosen, rtol=0)
    loss = output.summed_loss(features, targets, torch.float32)
    assert float(loss.detach()) == pytest.approx(-float(chosen.sum()), rel=1e-5)


def test_the_gradient_of_classes_is_that_of_the_definition():
    torch.manual_seed(3)
    output, features = elman.ClassOutput(12, SIZE, 6, False), torch.randn(40, 12)
    targets = torch.randint(1, SIZE, (40,))
    weights = [output.words.weight, output.words.bias, output.classes.weight, output.classes.bias]
    found = torch.autograd.grad(output.summed_loss(features, targets, torch.float32), weights)
    by_hand = classes_by_hand(output, features).gather(1, targets[:, None]).log()
    for one, other in zip(found, torch.autograd.grad(-by_hand.sum(), weights), strict=True):
        close(one, other, atol=2e-4, rtol=1e-3)


def test_classes_are_cut_by_the_square_roots_of_zipfs_frequencies():
    output = elman.ClassOutput(4, 1 + 10_000, 50, False)
    assert (len(output.ends), output.ends[-1]) == (50, 10_001)
    roots = torch.arange(1, 10_001).double() ** -0.5
    mass = torch.zeros(50, dtype=torch.float64).index_add_(0, output.class_of[1:], roots)
    assert mass[5:].max() / mass[5:].min() < 1.1  # the first classes are of single words
    torch.manual_seed(0)
    stream = torch.randn(4, 300, 64)
    for _ in range(3):
        stream = cnn.GatedConvolution(64, 64, 4, True, 1.0)(stream).detach()
    assert 0.5 < stream.var() < 4


def like_torch(part, stream):
    """Apply one gated convolution with torch's own layers to (B, T, C)."""
    kernel, inputs = part.kernel_size, part.inputs
    convolution = nn.Conv1d(inputs, len(part.bias), kernel)
    if part.length is None:
        convolution.weight.data = part.direction
    else:
        convolution = nn.utils.parametrizations.weight_norm(convolution)
        convolution.parametrizations.weight.original0.data = part.length[:, None, None]
        convolution.parametrizations.weight.original1.data = part.direction
    convolution.bias.data = part.bias
    padded = functional.pad(stream.transpose(1, 2), (kernel - 1, 0))
    return functional.glu(convolution(padded), 1).transpose(1, 2)


@pytest.mark.parametrize("architecture", CONVOLUTIONS)
@torch.no_grad()
def test_forward_equals_torchs_layers(architecture):
    model, tokens = make("cnn", architecture, noise=0.1), prefixes(length=17)
    stream = model.embedding(tokens)
    if architecture.get("tie_weights", True):
        stream = stream * 8**0.5
    for layer, block in enumerate(model.blocks):
        values = stream
        for part in block:
            values = like_torch(part, values)
        stream = stream + values if layer else values
    if model.narrow is not None:
        stream = model.narrow(stream)
    expected = stream @ model.output.weight.T + model.output.bias
    close(model(tokens)[..., 1:], expected[..., 1:])


@pytest.mark.parametrize("architecture", CONVOLUTIONS)
def test_a_prediction_sees_the_receptive_field_and_nothing_else(architecture):
    model, tokens = make("cnn", architecture, noise=0.1), prefixes(1, 17)
    embedded = model.embedding(tokens).detach().requires_grad_()
    model._embed = lambda tokens: embedded
    model(tokens)[0, 14, 1:].sum().backward()
    seen = embedded.grad[0].abs().sum(1) > 0  # (T,)
    field = 1 + architecture["layers"] * (architecture.get("kernel_size", 4) - 1)
    assert seen.tolist() == [14 - field < place <= 14 for place in range(17)]
    assert model.context_length is None


def transformer(**changes):
    return make("transformer", {**BLOCKS, **changes}, noise=0.1)


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
    model, tokens = transformer(**changes), prefixes()
    mask = nn.Transformer.generate_square_subsequent_mask(9)
    stream = model.embedding(tokens) * 4 + model.positions[:9]
    expected = encoder_like(model)(stream, mask, is_causal=True) @ model.output.weight.T
    close(model(tokens)[..., 1:], expected[..., 1:])


@torch.no_grad()
def test_forward_equals_gpt2():
    transformers = pytest.importorskip("transformers")
    model, tokens = transformer(positions="learned"), prefixes()
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
    close(model(tokens)[..., 1:], theirs(tokens).logits[..., 1:])


@torch.no_grad()
def test_rows_at_different_positions_step_together():
    model, tokens = transformer(), prefixes(length=40)
    state = model.initial_state(3, 45)
    for place in range(40):
        _, state = model.step(tokens[:, place], state)
        if place in (7, 33):
            state = state.reset(torch.tensor([1]))
    state = state.select(torch.tensor([2, 1, 1]))
    logits, _ = model.step(torch.tensor([5, 6, 7]), state)
    rows = [[*tokens[2], 5], [*tokens[1, 34:], 6], [*tokens[1, 34:], 7]]
    for row, prefix in enumerate(rows):
        close(logits[row, 1:], model(torch.tensor([prefix]))[0, -1, 1:])


@torch.no_grad()
def test_the_future_and_other_rows_change_nothing():
    model, tokens = transformer(), prefixes()
    changed = tokens.clone()
    changed[0, 5:] = 3
    torch.testing.assert_close(model(changed)[0, :5], model(tokens)[0, :5])
    torch.testing.assert_close(model(changed)[1:], model(tokens)[1:])


def test_sinusoids_are_those_of_the_paper_and_too_long_contexts_refused():
    table = sinusoids(10, 6)
    for place in range(10):
        for pair in range(3):
            angle = place / 10_000 ** (2 * pair / 6)
            assert table[place, pair] == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[place, pair + 3] == pytest.approx(math.cos(angle), abs=1e-6)
    with pytest.raises(errors.InputError, match=r"maximum_length: is 81.*context_length is 80"):
        transformer().initial_state(2, 81)
    with pytest.raises(ValueError, match="81 tokens exceed the context of 80"):
        transformer()(torch.zeros(1, 81, dtype=torch.int64))


def adaptive(open_vocabulary=False, **changes):
    return make("transformer-adaptive-softmax", {**BANDS, **changes}, SIZE, open_vocabulary)


def some_features(count=50):
    return torch.randn(count, 32, generator=torch.Generator().manual_seed(2))


def multiplied_out(output, features):
    """Give all probabilities from the definition, in the dtype of the features."""
    tables = [table.weight.to(features.dtype) for table in output.tables]
    projections = [layer.weight.to(features.dtype) for layer in output.projections]
    clusters = output.clusters.weight.to(features.dtype)
    head = torch.cat([features @ tables[0].T, features @ clusters.T], 1)
    head[:, output.impossible] = -torch.inf
    head = head.softmax(1)
    logits = [features @ projections[k] @ tables[k + 1].T for k in range(2)]
    tails = [head[:, 10 + k, None] * held.softmax(1) for k, held in enumerate(logits)]
    return torch.cat([head[:, :10], *tails], 1)


@pytest.mark.parametrize("ties", TIES)
@torch.no_grad()
def test_it_equals_torchs_adaptive_softmax_with_the_same_weights(ties):
    output, features = adaptive(**ties).output, some_features()
    theirs = nn.AdaptiveLogSoftmaxWithLoss(32, SIZE, [10, 30], 4.0, head_bias=True)
    theirs.head.weight.copy_(torch.cat([output.tables[0].weight, output.clusters.weight]))
    theirs.head.bias.zero_()
    theirs.head.bias[0] = -1e30
    for tail, (narrow, table) in enumerate(theirs.tail):
        narrow.weight.copy_(output.projections[tail].weight.T)
        table.weight.copy_(output.tables[tail + 1].weight)
    expected = theirs.log_prob(features)
    torch.testing.assert_close(output.logits(features)[:, 1:], expected[:, 1:])
    targets = torch.arange(1, 51)
    chosen = output.log_probs(features, targets).float()
    torch.testing.assert_close(chosen, theirs(features, targets).output)


@pytest.mark.parametrize("open_vocabulary", [False, True])
@torch.no_grad()
def test_logits_are_a_distribution_with_the_ranks_of_the_full_one(open_vocabulary):
    output, features = adaptive(open_vocabulary).output, some_features()
    found, exact = output.logits(features), multiplied_out(output, features.double()).log()
    torch.testing.assert_close(found.exp().sum(1), torch.ones(50))
    close(found.double(), exact, rtol=0)
    assert torch.equal(found.argsort(1), exact.argsort(1))
    assert torch.isneginf(found[:, [0, 2] if open_vocabulary else [0]]).all()


@pytest.mark.parametrize("ties", TIES)
def test_the_training_loss_and_its_gradient_are_those_of_the_full_distribution(ties):
    model, features = adaptive(**ties), some_features().requires_grad_()
    targets = torch.randint(1, SIZE, (50,), generator=torch.Generator().manual_seed(3))
    parameters = [features, *model.output.parameters()]
    found = model.output.summed_loss(features, targets, torch.float32)
    exact = -multiplied_out(model.output, features.double()).gather(1, targets[:, None]).log().sum()
    torch.testing.assert_close(found.double(), exact)
    grads = (torch.autograd.grad(value, parameters) for value in (found, exact))
    for ours, theirs in zip(*grads, strict=True):
        close(ours, theirs, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_input_embeddings_are_projected_rows_of_the_bands():
    embedding, tokens = adaptive().embedding, prefixes(size=SIZE)
    for token in range(SIZE):
        band = sum(token >= start for start in (10, 30))
        row = embedding.tables[band].weight[token - (0, 10, 30)[band]]
        expected = embedding.projections[band].weight @ row
        torch.testing.assert_close(embedding(torch.tensor([[token]]))[0, 0], expected)
    torch.testing.assert_close(embedding(tokens)[1, 4], embedding(tokens[1, 4, None])[0])


def test_bands_cut_by_id_or_share_and_leave_none_empty():
    assert Bands.cut(1000, (0.1, 400), 64, 4) == Bands((0, 100, 400), (100, 300, 600), (64, 16, 4))
    assert Bands.cut(20, (0.1, 0.4, 30), 64, 4) == Bands((0, 8), (8, 12), (64, 16))
    check_refused(r"cutoffs: none of \[0.1\] is inside .* 9 ids", Bands.cut, 9, (0.1,), 64, 4)


POSITIONS, WIDTH, WORDS = 48, 5, 23


def problem(dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(POSITIONS, WIDTH, generator=generator, dtype=dtype)
    weight = torch.randn(WORDS, WIDTH, generator=generator, dtype=dtype) * scale
    bias = torch.randn(WORDS, generator=generator, dtype=dtype)
    may_end = torch.rand(POSITIONS, generator=generator) < 0.5
    targets = torch.randint(vocabulary.EOS + 1, WORDS, (POSITIONS,), generator=generator)
    targets = torch.where(may_end & (targets < 6), vocabulary.EOS, targets)
    counts = torch.randint(0, 4, (POSITIONS,), generator=generator)
    return features, weight, bias, Words(targets, may_end), counts


def plain(features, weight, bias, words):
    logits = features @ weight.T + bias
    barred = torch.zeros_like(logits, dtype=torch.bool)
    barred[:, vocabulary.BOS], barred[:, vocabulary.EOS] = True, ~words.may_end
    logits = logits.masked_fill(barred, -torch.inf)
    return logits.log_softmax(1).gather(1, words.targets[:, None])[:, 0]


@pytest.fixture(params=[(128, 1024), (16, 4), (32, 1)])
def tiles(request, monkeypatch):
    monkeypatch.setitem(word_softmax.TILES, "cpu", request.param)


@pytest.mark.usefixtures("tiles")
def test_values_are_those_of_the_full_softmax():
    features, weight, bias, words, counts = problem()
    expected = plain(features, weight, bias, words)
    assert (words.targets == vocabulary.EOS).any()
    torch.testing.assert_close(word_log_probs(features, weight, bias, words), expected)
    total, values = summed_word_log_probs(features, weight, bias, words, counts)
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(total, expected @ counts.double())


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_gradients_are_those_of_autograd(scale):
    features, weight, bias, words, counts = problem(scale=scale)
    leaves = [part.requires_grad_() for part in (features, weight, bias)]
    total, _ = summed_word_log_probs(*leaves, words, counts)
    found = torch.autograd.grad(1.7 * total, leaves)
    expected = torch.autograd.grad(1.7 * (plain(*leaves, words) @ counts.double()), leaves)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.usefixtures("tiles")
def test_words_far_below_the_smallest_number_are_scored_and_an_impossible_end_is_no_reference():
    features, weight, bias, words, _ = problem(torch.float32, scale=100.0)
    found = word_log_probs(features, weight, bias, words)
    expected = plain(*(part.double() for part in (features, weight, bias)), words)
    assert expected.min() < -200.0  # exp(−200) is 0 in float32
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-3)
    bias[vocabulary.EOS] = 1e4
    expected = plain(*(part.double() for part in (features, weight, bias)), words)
    found = word_log_probs(features, weight, bias, words)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("gap", [20.0, 80.0, 88.0, 88.6, 89.0, 200.0])
def test_gradients_are_finite_however_improbable_a_word_is(gap):
    features, weight, bias, words, counts = problem(torch.float32)
    weight[WORDS - 1, 0], bias[WORDS - 1] = 3.0, gap
    leaves = [part.requires_grad_() for part in (features, weight, bias)]
    total, values = summed_word_log_probs(*leaves, words, counts)
    found = torch.autograd.grad(total, leaves)
    exact = [part.detach().double().requires_grad_() for part in leaves]
    expected = torch.autograd.grad(plain(*exact, words) @ counts.double(), exact)
    assert values.max() <= 0
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=2e-4)


def test_a_position_has_the_same_number_in_any_company():
    features, weight, bias, words, _ = problem(torch.float32, scale=100.0)
    whole = word_log_probs(features, weight, bias, words)
    for rows in (torch.arange(16), torch.arange(16, 48), torch.arange(47, -1, -1)):
        part = Words(words.targets[rows], words.may_end[rows])
        assert torch.equal(word_log_probs(features[rows], weight, bias, part), whole[rows])
