"""Scheduled sampling (Bengio, Vinyals, Jaitly & Shazeer 2015, section 2.4).

In training each input token after the first is the true one with probability ε(i), i the step of
the optimizer, and otherwise drawn from what the model itself predicted at the place before. The
inputs are mixed first, a place at a time, without dropout; the loss is then that of a parallel
pass over the mixed inputs with the true targets. No gradient goes through the draws, as in the
paper. So it serves every family, at the price of a step by step pass. A drawn ``</s>`` is fed like
any other token.

B rows, N of them with a draw, T positions, V ids.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.models.contract import LanguageModel, TrainedModel
from beyond_perplexity.random_streams import stream
from beyond_perplexity.training.options import TrainingOptions


def truth_probability(options: TrainingOptions, step: int) -> float:
    """Return ε(i), the probability of a true input token at a step, counted from 0.

    linear: k − c i; exponential: k^i; inverse-sigmoid: k / (k + exp(i / k)); never less than the
    minimum, nor more than 1. Without scheduled sampling it is 1.
    """
    k = options.sampling_k
    if options.scheduled_sampling == "none" or k is None:
        return 1.0
    if options.scheduled_sampling == "linear":
        value = k - options.sampling_c * step
    elif options.scheduled_sampling == "exponential":
        value = k**step
    else:
        value = 1 / (1 + math.exp(min(step / k, 700)) / k)
    return min(1.0, max(options.sampling_minimum, value))


def mix_batch(
    model: TrainedModel, batch: Any, options: TrainingOptions, seed: int, step: int
) -> Any:
    """Replace true input tokens of a batch by the model's own, as the options have it at a step."""
    truth = truth_probability(options, step)
    if truth >= 1:
        return batch
    assert isinstance(model, LanguageModel)  # `fitting` refuses the others
    return replace(batch, inputs=mix_inputs(model, batch.inputs, truth, seed, step))


@torch.no_grad()
def mix_inputs(
    model: LanguageModel, inputs: Tensor, probability: float, seed: int, step: int
) -> Tensor:
    """Replace true input tokens, int64, (B, T), by the model's own; the first of each row stay.

    `probability` is ε, of keeping each of the others; seed and step key the random stream. The
    model's mode is afterwards what it was.
    """
    if probability >= 1:
        return inputs
    training = model.training
    model.eval()
    rows, places = inputs.shape
    numbers = stream(seed, "train/scheduled-sampling", step).random((2, places, rows))
    replaced, uniforms = numbers[0] >= probability, torch.from_numpy(numbers[1])  # (T, B), (T, B)
    mixed, state = inputs.clone(), model.initial_state(rows, places)  # (B, T)
    for place in range(1, places):
        chosen = torch.from_numpy(np.flatnonzero(replaced[place]))  # (N,)
        where = chosen.to(inputs.device)  # (N,)
        logits, state = model.step_some(mixed[:, place - 1], state, where)  # (N, V)
        if len(chosen):
            mixed[where, place] = _draw(logits, uniforms[place][chosen])
    model.train(training)
    return mixed


def _draw(logits: Tensor, uniforms: Tensor) -> Tensor:
    """Return tokens (N,) from logits (N, V) by numbers in [0, 1), (N,): inverse of the cdf."""
    cumulative = logits.double().softmax(1).cumsum(1)  # (N, V)
    goal = uniforms.to(logits.device)[:, None] * cumulative[:, -1:]  # (N, 1)
    tokens = torch.searchsorted(cumulative, goal, right=True)[:, 0]  # (N,)
    return tokens.clamp_(max=logits.shape[1] - 1)
