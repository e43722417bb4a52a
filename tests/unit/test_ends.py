"""Leaving the end of a text out of T, log p and the training loss of models with latent variables.

Without its end a text stands for all that begin so. Oracle: the sum over the end and everything
that may come next, z of it included, by enumeration; plain implementations that stop there.
"""

from __future__ import annotations

import math

import pytest
import torch

from beyond_perplexity.errors import InputError
from beyond_perplexity.models.families import families_of
from beyond_perplexity.models.latents.kglm import KGLM
from tests.unit import (
    entitynlm_reference,
    kglm_reference,
    rnng_reference,
    rnng_top_down_reference,
    test_entitynlm,
    test_kglm,
    test_rnng,
    test_rnng_top_down,
)

OPEN = {"count_eos": False}
WITHOUT = {"count_eos": False, "train_eos": False}
KNOWN_ALIASES = {0: [[3], [3, 4]], 1: [[4, 3, 4]]}  # no unknown words: then Σ over words is plain


@torch.no_grad()
def entity_scores(model, tokens, codes):
    return test_entitynlm.scored(model, tokens, codes).exp().tolist()


def test_entitynlm_sums_over_what_may_follow():
    sizes = {"vocabulary_size": 5, "maximum_entities": 2}
    whole, cut = (test_entitynlm.make_model(**sizes, **more) for more in ({}, OPEN))
    tokens, codes = (3, 4), entitynlm_reference.all_codes(2, 2, 2)
    ended, found = entity_scores(whole, tokens, codes), entity_scores(cut, tokens, codes)
    longer = entitynlm_reference.all_codes(3, 2, 2)
    follow = dict.fromkeys(map(tuple, codes), 0.0)
    for word in (2, 3, 4):
        for row, p in zip(longer, entity_scores(cut, (*tokens, word), longer), strict=True):
            follow[tuple(row[:2])] += p
    expected = [p + follow[tuple(row)] for row, p in zip(codes, ended, strict=True)]
    assert found == pytest.approx(expected, rel=1e-10)
    weights = entitynlm_reference.weights_of(cut)
    plain = [
        math.exp(
            entitynlm_reference.plain_log_joint(weights, cut.options, tokens, row, ended=False)
        )
        for row in codes
    ]
    assert found == pytest.approx(plain, rel=1e-10)


def test_kglm_sums_over_what_may_follow():
    whole, cut = (
        test_kglm.make(KGLM, held_aliases=KNOWN_ALIASES, **more).double() for more in ({}, OPEN)
    )
    document = [3, 4]
    codes = kglm_reference.enumerate_codes(whole, 2)
    ended, found = (
        test_kglm.score(model, [document] * len(codes), codes).exp().tolist()
        for model in (whole, cut)
    )
    longer = kglm_reference.enumerate_codes(whole, 3)
    follow = dict.fromkeys(map(tuple, codes), 0.0)
    for word in (3, 4, 302):  # 302 is unknown
        scores = test_kglm.score(cut, [[*document, word]] * len(longer), longer).exp()
        for row, p in zip(longer, scores.tolist(), strict=True):
            follow[tuple(row[:2])] += p
    expected = [p + follow[tuple(row)] for row, p in zip(codes, ended, strict=True)]
    assert found == pytest.approx(expected, rel=1e-9)


@torch.no_grad()
def walked(model, tokens, latents):
    """Add up the words and the end of one row of z, word by word: log p, with and without it."""
    batch, owner = test_rnng.batch_of(tokens), torch.zeros(1, dtype=torch.int64)
    choices = model.split_latents(latents, torch.tensor([len(tokens)]))
    state, total = model.start(batch, owner), torch.zeros(1, dtype=torch.float64)
    for time in range(len(tokens)):
        log_p, state = model.extend(state, time, choices[:, time])
        total = total + log_p
    return float(total), float(total + model.finish(state, len(tokens)))


@torch.no_grad()
def test_rnng_sums_over_what_may_follow():
    """The next word comes after all is one tree; its own REDUCE is of what follows it."""
    whole, cut = (test_rnng.make(vocabulary=6, **more) for more in ({}, OPEN))
    tokens = [3, 5, 4]
    for tree in rnng_reference.all_trees(3):
        row = torch.tensor([tree])
        batch, owner = test_rnng.batch_of(tokens), torch.zeros(1, dtype=torch.int64)
        (ended,) = whole.log_joint(batch, owner, row).exp().tolist()
        (found,) = cut.log_joint(batch, owner, row).exp().tolist()
        longer = torch.tensor([[*tree, 0, 1]])
        follow = sum(math.exp(walked(whole, [*tokens, word], longer)[0]) for word in range(2, 6))
        assert found == pytest.approx(ended + follow, rel=1e-6)
        assert walked(cut, tokens, row)[1] == pytest.approx(math.log(found), abs=1e-6)
        assert walked(whole, tokens, row)[1] == pytest.approx(math.log(ended), abs=1e-6)


@torch.no_grad()
def test_top_down_rnng_stops_before_its_root_closes():
    cut, whole = (test_rnng_top_down.make(**more) for more in (OPEN, {}))
    batch, owner, latents = test_rnng_top_down.everything(cut)
    found = cut.log_joint(batch, owner, latents)
    sentences = test_rnng_top_down.SENTENCES
    expected = []
    for place, row in zip(owner.tolist(), latents.tolist(), strict=True):
        tree = [action for action in row if action >= 0]
        expected.append(rnng_top_down_reference.log_joint(cut, sentences[place], tree[:-1]))
    torch.testing.assert_close(found, torch.tensor(expected).double(), rtol=0, atol=1e-5)
    assert (found > whole.log_joint(batch, owner, latents)).all()


CASES = {
    "entitynlm": (test_entitynlm.make_model, lambda: test_entitynlm.make_batch((3, 4, 5), (4,))),
    "kglm": (
        lambda **options: test_kglm.make(KGLM, **options),
        lambda: test_kglm.batch_of([3, 4, 3], [4]),
    ),
    "rnng": (test_rnng.make, lambda: test_rnng.batch_of([4, 3, 8], [5])),
    "rnng-top-down": (test_rnng_top_down.make, lambda: test_rnng_top_down.batch_of([4, 3], [5])),
}


@pytest.mark.parametrize("family", CASES)
def test_words_with_the_end_of_particles_add_up_to_whole_rows(family):
    """With the end and without; T counts it or not, and says which."""
    make, batch_of = CASES[family]
    for more, end in (({}, 1), (OPEN, 0)):
        model, batch = make(**more), batch_of()
        assert model.n_tokens(batch).tolist() == [n + end for n in batch.lengths["tokens"].tolist()]
        assert model.t_definition == ("words and </s>" if end else "words")
        owner = torch.arange(len(batch))
        with torch.no_grad():
            rows = model.annotated(batch)
            expected = model.log_joint(batch, owner, rows)
            split = getattr(model, "split_latents", None)
            lengths = batch.lengths["tokens"]
            choices = split(rows, lengths) if split else rows
            for place, length in enumerate(lengths.tolist()):
                state, total = model.start(batch, owner[place : place + 1]), 0.0
                for time in range(length):
                    choice = choices[place : place + 1, time]
                    log_p, state = model.extend(state, time, choice)
                    total += float(log_p)
                total += float(model.finish(state, length))
                assert total == pytest.approx(float(expected[place]), abs=1e-5)


@pytest.mark.parametrize("family", ["entitynlm", "kglm", "rnng-top-down"])
def test_the_loss_leaves_the_end_out_where_it_is_asked_for(family):
    make, batch_of = CASES[family]
    losses = {}
    for name, more in (("whole", {}), ("evaluated", OPEN), ("both", WITHOUT)):
        model, batch = make(**more), batch_of()
        owner = torch.arange(len(batch))
        joint = float(model.log_joint(batch, owner, model.annotated(batch)).detach().sum())
        losses[name] = float(model.loss(batch).detach()), -joint
    assert losses["whole"][0] == losses["evaluated"][0]
    assert losses["evaluated"][1] == losses["both"][1] < losses["whole"][1]
    for name in ("whole", "both"):
        assert losses[name][0] == pytest.approx(losses[name][1], rel=1e-5)
    with pytest.raises(InputError, match="train_eos: is false, but count_eos is true"):
        make(train_eos=False)


def test_without_an_end_an_rnng_has_none_to_count_or_train():
    model, batch = test_rnng.make(eos=False), test_rnng.batch_of([4, 3, 8], [5])
    joint = model.log_joint(batch, torch.arange(2), model.annotated(batch)).detach()
    assert float(model.loss(batch).detach()) == pytest.approx(-float(joint.sum()), rel=1e-6)
    assert model.n_tokens(batch).tolist() == [3, 1]


def test_all_models_with_latent_variables_are_here():
    assert set(families_of("latent")) == set(CASES)
