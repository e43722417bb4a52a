"""Generation of every family: speed, share of the hardware's ceiling, ratio to Hugging Face.

    python -m benchmarks.generation --device auto [--families ...] [--documents N] [--scale small]

Weights are random, made so that the perplexity is about that of a language model (60; not for the
adaptive softmax) and the length of documents is geometric with the mean of the tendencies paper's
test set (57). The ceiling is measured in the same run (`benchmarks.ceilings`). Hugging Face has the
Transformer as a GPT-2 with the same weights, whose logits are checked to be equal; ``generate``
decodes static batches of the size that is fastest in a trial; same precision, threads and maximum
length. All take turns; the best of several turns counts. With one thread on a CPU, times are those
of the thread. A run should have many more documents than rows: at its end rows run empty.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.ceilings import Ceiling, clock
from beyond_perplexity.decoding.generation import generate, make_engine, set_precision
from beyond_perplexity.decoding.options import DecodingOptions, parse_decoding
from beyond_perplexity.models import registry
from beyond_perplexity.models.contract import CountedModel, LanguageModel
from beyond_perplexity.models.factored import FactoredModel, FullSoftmax
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.models.registry import choose_device
from beyond_perplexity.models.transformer import Transformer
from beyond_perplexity.models.trigram import Trigram
from beyond_perplexity.vocabulary import BOS, EOS, N_SPECIAL

MEAN_LENGTH = 57.45
LOG_PERPLEXITY = np.log(60)
RECURRENT = {"layers": 2, "embedding_size": 256, "hidden_size": 256, "tie_weights": False}
ATTENTION = {"layers": 4, "width": 256, "heads": 4, "feedforward_size": 1024}
LARGE_RECURRENT = {"layers": 3, "embedding_size": 512, "hidden_size": 512, "tie_weights": False}
LARGE_ATTENTION = {"layers": 12, "width": 1024, "heads": 16, "feedforward_size": 4096}
LEARNED = {"positions": "learned", "tie_weights": False}  # as a GPT-2 can have them
SIZES = {"small": 10_000, "paper": 52_000}
ARCHITECTURES: dict[str, dict[str, dict[str, Any]]] = {
    "small": {
        "transformer": {**ATTENTION, **LEARNED},
        "transformer-adaptive-softmax": ATTENTION,
        "cnn": {"layers": 4, "embedding_size": 256, "width": 256, "tie_weights": False},
        "lstm": RECURRENT,
        "gru": RECURRENT,
        "trigram": {},
    },
    "paper": {
        "transformer": {**LARGE_ATTENTION, **LEARNED},
        "transformer-adaptive-softmax": {**LARGE_ATTENTION, "layers": 24},
        "cnn": {"layers": 13, "embedding_size": 528, "width": 1024, "tie_weights": False},
        "lstm": LARGE_RECURRENT,
        "gru": LARGE_RECURRENT,
        "trigram": {},
    },
}


def sample(model: LanguageModel, count: int) -> Tensor:
    """Draw prefixes from a model that does not end them: int64, (B, T)."""
    machine = make_engine(model, DecodingOptions("ancestral"), 0, "prefixes", 64)
    texts = [document.tokens for document in machine.documents(0, count)]
    return torch.from_numpy(np.stack(texts)).long()  # (B, T)


@torch.no_grad()
def build_model(family: str, scale: str, device: torch.device) -> tuple[LanguageModel, float]:
    """Make a model; return it with what is added to the logit of EOS."""
    size = SIZES[scale]
    if FAMILIES[family].kind == "counted":
        rng = np.random.default_rng(0)
        share = 1 / np.arange(1, size - N_SPECIAL + 1)
        lengths = rng.geometric(1 / MEAN_LENGTH, 20_000)
        texts = [rng.choice(len(share), n, p=share / share.sum()) + N_SPECIAL for n in lengths]
        return Trigram.fit([[text.astype(np.int32) for text in texts]], size).to(device), 0.0
    torch.manual_seed(0)
    architecture = ARCHITECTURES[scale][family]
    model = registry.build({"family": family, "architecture": architecture}, size).eval()
    output: Any = model.output
    if isinstance(output, FullSoftmax):
        tokens = torch.randint(N_SPECIAL, size, (4, 32))  # (B, T)
        spread = np.sqrt(2 * (np.log(size) - LOG_PERPLEXITY))
        output.weight.mul_(spread / model(tokens)[..., N_SPECIAL:].std())
    plain: Callable[[Tensor], Tensor] = output.logits
    shift = -50.0

    def shifted(features: Tensor) -> Tensor:
        result = plain(features)
        result[..., EOS] += shift
        return result

    output.logits = shifted
    tokens = sample(model, 16)  # (B, T)
    assert isinstance(model, FactoredModel)
    logits = plain(model.features(tokens))  # (B, T, V)
    own = logits[..., EOS].clone()  # (B, T)
    logits[..., EOS] = -torch.inf
    others = logits.logsumexp(-1).double()  # (B, T)
    low, high = -50.0, 50.0
    for _ in range(60):  # the mean probability of EOS rises with its logit: bisect
        shift = (low + high) / 2
        stop = float(torch.sigmoid(own + shift - others).mean())
        low, high = (shift, high) if stop < 1 / (MEAN_LENGTH + 1) else (low, shift)
    return model.to(device), shift


@torch.no_grad()
def to_hugging_face(model: Transformer, shift: float) -> Any:
    """Copy the weights into a GPT-2 and check that its logits are the same."""
    from transformers import GPT2Config, GPT2LMHeadModel

    options, size = model.options, model.vocabulary_size
    config = GPT2Config(
        vocab_size=size,
        n_positions=options.context_length,
        n_embd=options.width,
        n_layer=options.layers,
        n_head=options.heads,
        n_inner=options.feedforward_size,
        activation_function="gelu",
        tie_word_embeddings=False,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=EOS,
    )
    theirs = GPT2LMHeadModel(config).eval()
    body: Any = theirs.transformer
    assert isinstance(model.output, FullSoftmax)
    assert isinstance(model.embedding, torch.nn.Embedding)
    body.wte.weight.copy_(model.embedding.weight * options.width**0.5)
    body.wpe.weight.copy_(model.positions)
    body.ln_f.load_state_dict(model.final_norm.state_dict())
    theirs.lm_head = torch.nn.Linear(options.width, size)
    theirs.lm_head.weight.copy_(model.output.weight)
    theirs.lm_head.bias.zero_()[EOS] = shift
    theirs.lm_head.bias[BOS] = -1e4
    ours: Any
    for ours, block in zip(model.blocks, body.h, strict=True):
        block.ln_1.load_state_dict(ours.attention_norm.state_dict())
        block.ln_2.load_state_dict(ours.feedforward_norm.state_dict())
        pairs = [
            (block.attn.c_attn, ours.attention_input),
            (block.attn.c_proj, ours.attention_output),
            (block.mlp.c_fc, ours.feedforward_input),
            (block.mlp.c_proj, ours.feedforward_output),
        ]
        for convolution, linear in pairs:  # GPT-2 keeps its matrices transposed
            convolution.weight.copy_(linear.weight.T)
            convolution.bias.copy_(linear.bias)
    theirs.to(model.device)
    tokens = torch.randint(N_SPECIAL, size, (4, 40), device=model.device)  # (B, T)
    found, wanted = model(tokens)[..., 1:], theirs(tokens).logits[..., 1:]  # (B, T, V - 1)
    assert torch.allclose(found, wanted, atol=2e-3), float((found - wanted).abs().max())
    return theirs


@torch.inference_mode()
def generate_static(
    model: Any, options: DecodingOptions, count: int, batch: int, maximum: int
) -> int:
    """Generate with Hugging Face in batches of a fixed size; return the tokens."""
    tokens = 0
    for done in range(0, count, batch):
        rows = min(batch, count - done)
        out: Tensor = model.generate(
            torch.full((rows, 1), BOS, device=model.device),
            attention_mask=torch.ones((rows, 1), dtype=torch.int64, device=model.device),
            do_sample=True,
            top_k=0,
            top_p=options.mass or 1.0,
            max_new_tokens=maximum,
        )
        tokens += int((out[:, 1:] != EOS).sum())
    return tokens


def best_batch(model: Any, options: DecodingOptions, sizes: list[int], maximum: int) -> int:
    """Return the fastest size of a static batch in a trial of one batch each."""
    speeds = {}
    for size in sizes:
        spent, _ = timed(partial(generate_static, model, options, size, size, maximum))
        speeds[size] = size / spent
    return max(speeds, key=lambda size: speeds[size])


def timed(run: Callable[[], int]) -> tuple[float, int]:
    """Return seconds and tokens of a run."""
    start = clock()
    tokens = run()
    return clock() - start, tokens


def measure(family: str, given: argparse.Namespace) -> dict[str, object]:
    """Measure one family; return its row of the table."""
    model, shift = build_model(family, given.scale, choose_device(given.device))
    options, maximum = parse_decoding({"kind": given.kind}), given.maximum_length
    theirs, static = None, 0
    if type(model) is Transformer and not given.without_theirs:
        theirs = to_hugging_face(model, shift)
    precision = set_precision(model, given.precision)
    if theirs is not None:
        theirs.to(next(model.parameters()).dtype)
        static = best_batch(theirs, options, given.their_batches, maximum)
    counted = isinstance(model, CountedModel)
    count = given.documents * (20 if counted else 1)
    rows = make_engine(model, options, 1, "x", maximum, given.batch_size)._batch_slots

    def ours() -> int:
        documents = generate(
            model,
            options,
            seed=1,
            purpose="benchmark",
            first=0,
            count=count,
            maximum_length=maximum,
            batch_size=given.batch_size,
        )
        return sum(len(document.tokens) for document in documents)

    ceiling = None if counted else Ceiling.of(model, rows, round(MEAN_LENGTH))
    best, other = (np.inf, 0), (np.inf, 0)
    for _ in range(given.repeats):
        best = min(best, timed(ours))
        if ceiling is not None:
            ceiling.measure()
        if theirs is not None:
            spent, tokens = timed(
                partial(generate_static, theirs, options, static, static, maximum)
            )
            other = min(other, (spent / static, tokens))
    speed = best[1] / best[0]
    return {
        "family": family,
        "parameters": f"{model.parameter_count() / 1e6:.1f}M",
        "precision": "counts" if counted else precision,
        "rows": rows,
        "documents/s": f"{count / best[0]:.1f}",
        "tokens/s": f"{speed:.0f}",
        "of ceiling": f"{speed / ceiling.tokens_per_second:.0%}" if ceiling else "-",
        "limited by": ceiling.limit if ceiling else "-",
        "Hugging Face": f"{count / best[0] * other[0]:.1f} x ({static} rows)" if theirs else "-",
    }


def show(rows: Sequence[Mapping[str, object]]) -> None:
    """Print a table with columns as wide as their texts."""
    table = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--families", nargs="+", default=list(ARCHITECTURES["small"]))
    parser.add_argument("--documents", type=int, default=2000, help="of each; trigram: 20 times")
    parser.add_argument("--scale", default="small", choices=list(SIZES), help="of the models")
    parser.add_argument("--kind", default="ancestral", help="kind of decoding")
    parser.add_argument("--maximum-length", type=int, default=512)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="auto", help="auto, float32 or bfloat16")
    parser.add_argument("--batch-size", default="auto", help="rows of ours")
    parser.add_argument("--their-batches", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--without-theirs", action="store_true", help="leave out Hugging Face")
    parser.add_argument("--repeats", type=int, default=2, help="turns, of which the best counts")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    rows = []
    for family in given.families:
        rows.append(measure(family, given))
        print(", ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    show(rows)


if __name__ == "__main__":
    main()
