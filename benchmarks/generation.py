"""Generate documents from one Transformer: this package against Hugging Face ``generate``.

    python -m benchmarks.generation [--documents 1000] [--kinds ancestral nucleus]

Both have the same weights: a GPT-2 whose logits are checked to be equal before anything is timed.
The weights are random, made so that the perplexity is about that of a language model (60) and the
length of documents is geometric with the mean of the tendencies paper's test set (57). Hugging Face
decodes static batches: its batch size is the fastest in a trial of one batch each. Same precision
(float32), same threads, same maximum length; both run in turn, the ratio is of documents/s.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from beyond_perplexity.decoding.generation import generate
from beyond_perplexity.decoding.options import DecodingOptions, parse_decoding
from beyond_perplexity.models.factored import FullSoftmax
from beyond_perplexity.models.transformer import Transformer

BOS, EOS = 0, 1
MEAN_LENGTH = 57.45
LOG_PERPLEXITY = np.log(60)


@torch.inference_mode()
def build_model(size: int, layers: int, width: int) -> Transformer:
    """Make the Transformer; its last feature is a constant that carries the logit of EOS."""
    torch.manual_seed(0)
    architecture = {
        "layers": layers,
        "width": width,
        "heads": width // 64,
        "feedforward_size": 4 * width,
        "positions": "learned",
        "dropout": 0.0,
        "tie_weights": False,  # a random tied model would repeat its input
    }
    model = Transformer(size, architecture).eval()
    assert isinstance(model.output, FullSoftmax)
    norm, table = model.final_norm, model.output.weight  # (V, D)
    norm.weight.fill_(np.sqrt(2 * (np.log(size) - LOG_PERPLEXITY)))
    norm.weight[-1], norm.bias[-1] = 0, 1
    table[:, -1] = 0
    table[EOS] = 0
    tokens = torch.randint(3, size, (8, 64))  # (B, T)
    tokens[:, 0] = BOS
    logits = model(tokens)  # (B, T, V)
    logits[..., EOS] = -torch.inf
    log_total = logits.double().logsumexp(-1).flatten()  # (B * T,)
    low, high = -50.0, 50.0
    for _ in range(60):  # the mean probability of EOS rises with its logit: bisect
        middle = (low + high) / 2
        stop = float(torch.sigmoid(middle - log_total).mean())
        low, high = (middle, high) if stop < 1 / (MEAN_LENGTH + 1) else (low, middle)
    table[EOS, -1] = middle
    return model


@torch.inference_mode()
def to_hugging_face(model: Transformer) -> GPT2LMHeadModel:
    """Copy the weights into a GPT-2 and check that its logits are the same."""
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
    body.wte.weight.copy_(model.embedding.weight * options.width**0.5)
    body.wpe.weight.copy_(model.positions)
    body.ln_f.load_state_dict(model.final_norm.state_dict())
    theirs.lm_head.weight.copy_(model.output.weight)
    theirs.lm_head.weight[BOS] = 0
    theirs.lm_head.weight[BOS, -1] = -1e4
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
    tokens = torch.randint(3, size, (4, 40))  # (B, T)
    ours, other = model(tokens)[..., 1:], theirs(tokens).logits[..., 1:]  # (B, T, V - 1)
    assert torch.allclose(ours, other, atol=2e-3), float((ours - other).abs().max())
    return theirs


@torch.inference_mode()
def generate_static(
    model: Any, options: DecodingOptions, count: int, batch: int, maximum: int
) -> list[int]:
    """Generate with Hugging Face in batches of a fixed size; return the lengths."""
    lengths: list[int] = []
    while len(lengths) < count:
        rows = min(batch, count - len(lengths))
        out: Tensor = model.generate(
            torch.full((rows, 1), BOS),
            attention_mask=torch.ones((rows, 1), dtype=torch.int64),
            do_sample=True,
            top_k=0,
            top_p=options.mass or 1.0,
            max_new_tokens=maximum,
        )
        lengths += (out[:, 1:] != EOS).sum(1).tolist()
    return lengths


def best_batch(
    model: GPT2LMHeadModel, options: DecodingOptions, sizes: list[int], maximum: int
) -> int:
    speeds = {}
    for size in sizes:
        start = time.perf_counter()
        generate_static(model, options, size, size, maximum)
        speeds[size] = size / (time.perf_counter() - start)
    print("  Hugging Face, documents/s of one batch:", {k: round(v, 1) for k, v in speeds.items()})
    return max(speeds, key=lambda size: speeds[size])


def generate_ours(
    model: Transformer, options: DecodingOptions, count: int, batch: int | str, maximum: int
) -> list[int]:
    documents = generate(
        model,
        options,
        seed=1,
        purpose="benchmark",
        first=0,
        count=count,
        maximum_length=maximum,
        batch_size=batch,
    )
    return [len(document.tokens) for document in documents]


def report(name: str, run: Callable[[], list[int]]) -> float:
    start = time.perf_counter()
    lengths = np.array(run())
    seconds = time.perf_counter() - start
    print(
        f"  {name:13} {len(lengths) / seconds:8.1f} documents/s {lengths.sum() / seconds:9.0f} "
        f"tokens/s   length {lengths.mean():.1f} ± {lengths.std():.1f}, longest {lengths.max()}",
        flush=True,
    )
    return seconds


def compare(
    model: Transformer, theirs: GPT2LMHeadModel, options: DecodingOptions, given: argparse.Namespace
) -> None:
    count, maximum = given.documents, given.maximum_length
    print(options.kind)
    generate_ours(model, options, 32, given.batch_size, maximum)  # warm up
    batch = best_batch(theirs, options, given.their_batches, maximum)
    ours = report("ours", lambda: generate_ours(model, options, count, given.batch_size, maximum))
    other = report("Hugging Face", lambda: generate_static(theirs, options, count, batch, maximum))
    print(f"  {options.kind}: ratio {other / ours:.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1000, help="documents of each")
    parser.add_argument("--kinds", nargs="+", default=["ancestral", "nucleus"], help="decodings")
    parser.add_argument("--vocabulary", type=int, default=10_000, help="V")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--maximum-length", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", default="auto", help="rows of ours")
    parser.add_argument("--their-batches", type=int, nargs="+", default=[16, 64, 128, 256])
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    model = build_model(given.vocabulary, given.layers, given.width)
    theirs = to_hugging_face(model)
    print(f"{model.parameter_count() / 1e6:.1f}M parameters, {given.documents} documents")
    for kind in given.kinds:
        compare(model, theirs, parse_decoding({"kind": kind}), given)


if __name__ == "__main__":
    main()
