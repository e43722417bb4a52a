"""Draw thoughts side by side after a prompt that is read once, beside a loop over samples.

    python -m benchmarks.thoughts [--device auto] [--samples 256] [--width 512] [--layers 6]

The loop is transformers' own: generate a thought, then score it with its answer in one pass, with
the same weights (a random Phi, whose thoughts have a mean length). It draws fewer samples, which
are given to the package as well, and must have the same log p. Both have warmed up on a prompt.
On one core of a CPU a row costs a loop least where the weights stay in its cache: the smaller the
model, the less is won (6 times at a width of 256).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from beyond_perplexity.importance.thought_draws import (
    Question,
    ThoughtEnds,
    ThoughtOptions,
)
from beyond_perplexity.importance.thoughts import (
    draw_thoughts,
    follow_thoughts,
    read_question,
)
from beyond_perplexity.models.registry import choose_device
from beyond_perplexity.vocabulary import EOS
from tests.unit.thoughts_reference import OURS, draw_by_loop, small_reasoner, to_ours

MARKER, LOOPED = 2, 8  # the model's id; samples of the loop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--samples", type=int, default=256, help="thoughts of the prompt")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--mean-length", type=int, default=64, help="tokens of a thought")
    parser.add_argument("--prompt-length", type=int, default=256, help="tokens")
    given = parser.parse_args()
    torch.set_num_threads(1)
    device, most = choose_device(given.device), 4 * given.mean_length
    sizes = given.vocabulary, given.width, given.layers, given.mean_length
    external, model = small_reasoner(*sizes, context=given.prompt_length + most + 64)
    external.to(device), model.to(device)
    random = np.random.default_rng(1)
    prompt, answer = (random.integers(3, given.vocabulary, n) for n in (given.prompt_length, 16))
    ends = ThoughtEnds(np.array([MARKER + OURS]), np.array([EOS]))
    asked = Question(0, prompt + OURS, np.empty(0, np.int64), answer + OURS, 16)

    def ours(samples: int) -> float:
        begun = time.perf_counter()
        read = read_question(model, asked, most)
        found = draw_thoughts(read, ends, ThoughtOptions("own", 0.5, most), range(samples), 1)
        print(f"mean length {found.tokens.mean():.0f}, cut {found.cut.mean():.1%}")
        return samples / (time.perf_counter() - begun)

    held = torch.from_numpy(prompt).to(device), torch.from_numpy(answer).to(device)
    draw_by_loop(external, *held, MARKER, most, 1)
    begun = time.perf_counter()
    looped = draw_by_loop(external, *held, MARKER, most, LOOPED)
    theirs = LOOPED / (time.perf_counter() - begun)
    ours(16)
    rate = ours(given.samples)
    thoughts = [to_ours(thought) for thought, *_ in looped]
    padded = np.full((most, 16), EOS)
    for row in range(16):
        padded[: len(thoughts[row % LOOPED]), row] = thoughts[row % LOOPED]
    forced = iter(torch.from_numpy(padded).to(device))
    read = read_question(model, asked, most)
    end = torch.full((16,), EOS, device=device)

    def choose(_: torch.Tensor, __: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return next(forced, end)[rows]

    found, _ = follow_thoughts(read, ends, most, choose, 16)
    for row, (_, thought, answered) in enumerate(looped):
        assert np.isclose(found.log_p_thought[row], thought, rtol=1e-5, atol=1e-2)
        if not found.cut[row] and found.log_p_answer[row] > -np.inf:
            assert np.isclose(found.log_p_answer[row], answered, rtol=1e-5, atol=1e-2)
    print(f"ours {rate:,.1f} samples/s, loop {theirs:,.2f} samples/s: {rate / theirs:,.0f} times")


if __name__ == "__main__":
    main()
