"""Thoughts: how often claims of two-sided bounds miss, and what thoughts are worth to an answer.

Needs a quarter of an hour. Oracles: for a model that remembers two symbols, log p with a cap and
without is a matrix power and a linear solve; 1,000 sets of 100 thoughts each, all drawn by the
package. A row fails where the one-sided 99.9% lower limit (Clopper & Pearson) of missed claims is
above 5%. Of chained additions a small Transformer is trained whose right answers are known.
"""

import math

import numpy as np
import pandas as pd
import pytest
import torch

import beyond_perplexity
from beyond_perplexity.importance.thought_draws import Question, ThoughtEnds, ThoughtOptions
from beyond_perplexity.importance.thoughts import answer_beside, draw_thoughts, read_question
from beyond_perplexity.models.transformer import Transformer
from beyond_perplexity.vocabulary import BOS, EOS
from tests.unit.test_thoughts import ENDS, SYMBOLS, YES, A, B, Remembering, exact
from tests.unit.uneven_weights import claim, surely_above

SETS, SAMPLES, MOST = 1000, 100, 12


def questions(model):
    """Make 14 prompts, each with the answer that it makes least or most probable, and p of it."""
    found = []
    for place, (x, y) in enumerate([(x, y) for x in (A, B, YES) for y in (A, B, YES)] * 2):
        answer = ((A, B, YES)[place % 3], SYMBOLS[place % 2], EOS)
        shown = np.array([BOS, answer[1], answer[0]])
        asked = Question(place, np.array([BOS, x, y]), shown, np.array(answer), 3)
        capped, cut = exact(model, MOST, (y, x), answer)
        found.append((asked, capped, exact(model, None, (y, x), answer), cut))
    return found[:14]


@pytest.mark.parametrize("proposal", ["own", "answer", "mixture"])
@pytest.mark.parametrize("seed", [0, 1])
def test_claims_on_thoughts_of_a_chain(proposal, seed):
    model, options = Remembering(seed), ThoughtOptions(proposal, 0.5, MOST)
    ended, right, held = [], [], questions(model)
    for asked, *_ in held:
        plain = asked if proposal != "own" else asked._replace(shown=np.empty(0, np.int64))
        read = read_question(model, plain, MOST)
        found = draw_thoughts(read, ENDS, options, range(SETS * SAMPLES), seed=5)
        drawn = found.log_p_thought - found.log_q_thought
        ended.append((found.log_p_answer + drawn).reshape(SETS, SAMPLES))
        answered = np.where(found.cut, 0.0, found.log_p_answer)
        right.append((answered + drawn).reshape(SETS, SAMPLES))
    capped, whole, cut = (np.array([one[k] for one in held]) for k in (1, 2, 3))
    print(
        f"{proposal}, seed {seed}: P(cut) {cut.mean():.1%}, p_cap / p {(capped / whole).min():.3f}"
    )
    first = [claim(np.array(one), np.log(capped).sum()) for one in zip(*ended, strict=True)]
    upper = [claim(np.array(one), np.log(capped + cut).sum()) for one in zip(*right, strict=True)]
    truth = np.log(whole).sum()
    misses = {
        "p_cap": [one.missed for one in first if one.made],
        "p": [
            not low.ends.low <= truth <= high.ends.high
            for low, high in zip(first, upper, strict=True)
            if low.made and high.made
        ],
    }
    for name, missed in misses.items():
        print(f"  {name}: claimed {len(missed)} of {SETS}, missed {np.mean(missed or [0]):.1%}")
        assert surely_above(sum(missed), len(missed)) <= 0.05
    assert len(misses["p_cap"]) > SETS // 2


TERMS, DIGIT, PLUS, EQUALS, DONE = 5, 3, 13, 14, 15  # ids: ten digits from 3 on
STEPS, ROWS = 3000, 128


def additions(random, count):
    """Make prompts d+d+d+d+d= with running sums modulo 10 as a thought, and the last as answer.

    A fifth has no thought, and a step of a thought is wrong in a twentieth, and goes on from there.
    """
    digits = random.integers(0, 10, (count, TERMS))
    rows = []
    for row in digits.tolist():
        prompt = [BOS]
        for digit in row:
            prompt += [digit + DIGIT, PLUS]
        prompt[-1] = EQUALS
        total, thought = row[0], []
        for digit in row[1:]:
            total = (total + digit + (random.random() < 0.05)) % 10
            thought.append(total + DIGIT)
        if random.random() < 0.2:
            thought = []
        answer = [(thought[-1] if thought else sum(row) % 10 + DIGIT), EOS]
        rows.append((prompt, [*thought, DONE], answer, sum(row) % 10 + DIGIT))
    return rows


def train():
    sizes = {"width": 64, "heads": 4, "layers": 2, "context_length": 32, "feedforward_size": 128}
    torch.manual_seed(1)
    model, random = Transformer(16, sizes), np.random.default_rng(1)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, STEPS)
    for _ in range(STEPS):
        rows = [(p, [*z, *y]) for p, z, y, _ in additions(random, ROWS)]
        width = 3 * TERMS + 3
        tokens = torch.tensor([[*p, *r, *[EOS] * (width - len(p) - len(r))] for p, r in rows])
        goal = torch.full_like(tokens, -100)
        for place, (p, r) in enumerate(rows):
            goal[place, len(p) - 1 : len(p) + len(r) - 1] = torch.tensor(r)
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), goal[:, :-1].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    print(f"last loss {float(loss.detach()):.3f} nats a token")
    return model.eval()


def test_chained_additions_need_their_thoughts():
    """Oracle: the sums; the answer after right running sums is known to the model, else hardly."""
    torch.set_num_threads(1)
    model, ends = train(), ThoughtEnds(np.array([DONE]), np.array([EOS]))
    rows = []
    for instance, (prompt, _, _, right) in enumerate(additions(np.random.default_rng(2), 60)):
        nothing, answer = np.empty(0, np.int64), np.array([right, EOS])
        asked = Question(instance, np.array(prompt), nothing, answer, 1)
        read = read_question(model, asked, 8)
        found = draw_thoughts(read, ends, ThoughtOptions("own", 0.5, 8), range(200), 3)
        beside = answer_beside(read, ends, 8, np.array([DONE]))
        held = {"instance": instance, "sample": range(200), "n_tokens": 2, **beside._asdict()}
        held |= {"log_p_answer": found.log_p_answer, "cut": found.cut.astype(int)}
        rows.append(pd.DataFrame(held))
    found = beyond_perplexity.estimate(thoughts=pd.concat(rows))
    print(found.text)
    sums = found.summary["thoughts"]
    marginal = found.table.query("method == 'importance_sampling' and aggregation == 'instance'")
    value = float(marginal["value"].iloc[0])
    print(
        f"perplexity of answers: no thought {sums['no_thought']:.3f}, one (greedy) "
        f"{sums['greedy']:.3f}, all {value:.3f}"
    )
    assert value < sums["no_thought"] / 1.2
    assert value < sums["greedy"]
    assert math.isfinite(value)
