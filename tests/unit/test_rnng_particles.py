"""Both RNNGs word by word: particles, proposals given the tree so far, and simulated sentences.

Oracles: the scores of whole rows of z, sums over all trees of a sentence, the posterior by
enumeration (which has no variance as a proposal), enumerated probabilities of sentences with their
trees against the frequencies of simulated ones.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from beyond_perplexity.corpus.latent_instances import TOKENS, Instance, InstanceBatch
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.model_pair import Pair
from beyond_perplexity.importance.particle_runs import (
    FilterSetting,
    conditional_smc,
    numbers_needed,
    run_smc,
    smc_log_prob,
    smc_paths,
)
from beyond_perplexity.importance.ways_to_draw import SMCOptions
from beyond_perplexity.models.latent import FILLING
from beyond_perplexity.models.latents import rnng_binary_trees as binary_course
from beyond_perplexity.models.latents import rnng_span_charts as span_prefixes
from beyond_perplexity.models.latents import rnng_top_down as top_down
from beyond_perplexity.models.latents.rnng_discriminative import DiscriminativeRNNG
from beyond_perplexity.models.latents.rnng_span_crf import SpanCRF
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit import rnng_reference, test_rnng, test_rnng_top_down
from tests.unit.rnng_corpus import rows_of
from tests.unit.test_smc import numbers

TEMPERATURES = [0.5, 1.0, 2.0]
VOCABULARY = ClosedVocabulary(["a"], 1)


class Kind(NamedTuple):
    """How the tests make a tiny RNNG with its proposal, a batch, and all trees of a sentence."""

    pair: Callable
    batch: Callable
    trees: Callable
    sentences: tuple[list[int], ...]


def binary_pair(vocabulary=9, double=True, **options):
    model = test_rnng.make(vocabulary=vocabulary, double=double, **options)
    return model, test_rnng.make(SpanCRF, vocabulary=vocabulary, double=double)


def labelled_pair(vocabulary=9, double=True, **options):
    own = {"count_eos": options.pop("count_eos", True)}
    common = {"maximum_run": 1, "maximum_open": 3, "vocabulary": vocabulary, **options}
    make = test_rnng_top_down.make
    return make(double=double, **own, **common), make(DiscriminativeRNNG, double=double, **common)


KINDS = {
    "binary": Kind(
        binary_pair,
        test_rnng.batch_of,
        lambda model, length: rnng_reference.all_trees(length),
        ([4, 3, 8, 8, 5], [6], [7, 2, 5], [3, 5]),
    ),
    "labelled": Kind(
        labelled_pair, test_rnng_top_down.batch_of, test_rnng_top_down.trees_of, ([4, 3, 8], [6])
    ),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def everything(kind, model):
    """Return a batch of the sentences, and all trees of each with its place."""
    trees = [kind.trees(model, len(words)) for words in kind.sentences]
    owner = torch.arange(len(trees)).repeat_interleave(torch.tensor([len(t) for t in trees]))
    return kind.batch(*kind.sentences), owner, rows_of([tree for some in trees for tree in some])


@torch.no_grad()
def walk(model, batch, owner, choices):
    """Add up what a model (or a proposal and its temperature) says of the words, (R,)."""
    proposal, temperature = model if isinstance(model, tuple) else (None, None)
    walker = proposal or model
    lengths, rows = batch.lengths[TOKENS][owner], torch.arange(len(owner))
    state, total = walker.start(batch, owner), torch.zeros(len(owner)).double()
    for time in range(int(lengths.max()) + 1):
        if proposal is None:
            total[rows] += walker.finish(state, time)
        going = (lengths[rows] > time).nonzero()[:, 0]
        rows, state = rows[going], state.select(going)
        if not len(rows):
            return total
        arguments = (state, time, choices[rows, time], *([temperature] if proposal else []))
        found, state = (walker.follow if proposal else walker.extend)(*arguments)
        total[rows] += found
    return total


@pytest.mark.parametrize("fewest", [1, 4096])
@pytest.mark.parametrize("options", [{}, {"layers": 2}, {"count_eos": False}])
@each_kind
def test_words_add_up_to_whole_rows(kind, options, fewest, monkeypatch):
    """All trees of sentences of several lengths, also where nodes are thrown away at once."""
    monkeypatch.setattr(binary_course, "FEWEST_TREES", fewest)
    monkeypatch.setattr(top_down, "FEWEST_NODES", fewest)
    monkeypatch.setattr(span_prefixes, "FEWEST_CHAINS", fewest)
    model, proposal = kind.pair(**options)
    batch, owner, latents = everything(kind, model)
    lengths = batch.lengths[TOKENS][owner]
    choices = model.split_latents(latents, lengths)
    joined = model.join_choices(choices, lengths)
    assert torch.equal(joined, latents[:, : joined.shape[1]])
    with torch.no_grad():
        log_p = model.log_joint(batch, owner, latents)
        log_q = proposal.log_prob(batch, owner, latents, TEMPERATURES)
    torch.testing.assert_close(walk(model, batch, owner, choices), log_p, atol=1e-10, rtol=0)
    for temperature, column in zip(TEMPERATURES, log_q.T, strict=True):
        found = walk((proposal, temperature), batch, owner, choices)
        torch.testing.assert_close(found, column, atol=1e-10, rtol=0)


def test_a_model_without_ends_has_none_at_the_end_of_a_sentence():
    kind = KINDS["binary"]
    model, _ = kind.pair(eos=False)
    batch, owner, latents = everything(kind, model)
    choices = model.split_latents(latents, batch.lengths[TOKENS][owner])
    with torch.no_grad():
        log_p = model.log_joint(batch, owner, latents)
    torch.testing.assert_close(walk(model, batch, owner, choices), log_p, atol=1e-10, rtol=0)
    with pytest.raises(InputError, match="no ends to simulate"):
        model.simulate(1, "x", range(3), 9, VOCABULARY)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
@each_kind
def test_proposed_choices_have_the_probabilities_of_whole_trees(kind, temperature):
    """Frequencies of trees drawn word by word, and log q as it is told on the way."""
    model, proposal = kind.pair()
    count = 4000
    batch, trees = kind.batch(kind.sentences[0]), kind.trees(model, len(kind.sentences[0]))
    owner, rows = torch.zeros(count, dtype=torch.int64), rows_of(trees)
    draws = proposal.word_draws
    uniforms = torch.from_numpy(
        np.random.default_rng(3).random((count, draws * len(kind.sentences[0])))
    )
    choices, total, state = [], 0.0, proposal.start(batch, owner)
    with torch.no_grad():
        for time, drawn_by in enumerate(uniforms.split(draws, 1)):
            choice, log_q, state = proposal.propose(state, time, drawn_by, temperature)
            choices.append(choice)
            total = total + log_q
        widest = max(choice.shape[-1] for choice in choices)
        if choices[0].ndim > 1:
            pad = torch.nn.functional.pad
            choices = [pad(one, (0, widest - one.shape[1]), value=FILLING) for one in choices]
        lengths = batch.lengths[TOKENS][owner]
        drawn = model.join_choices(torch.stack(choices, 1), lengths)
        expected = proposal.log_prob(batch, owner, drawn, [temperature])[:, 0]
        log_q = proposal.log_prob(batch, owner[: len(rows)], rows, [temperature])[:, 0]
    torch.testing.assert_close(total, expected, atol=1e-10, rtol=0)
    shares = (drawn[:, None] == rows[:, : drawn.shape[1]]).all(2).double().mean(0)
    assert float(shares.sum()) == pytest.approx(1)
    error = (log_q.exp() / count).sqrt()
    assert ((shares - log_q.exp()).abs() < 5 * error + 5e-4).all()


@torch.no_grad()
def joint(kind, model):
    words = kind.sentences[0]
    rows = rows_of(kind.trees(model, len(words)))
    owner = torch.zeros(len(rows), dtype=torch.int64)
    return rows, model.log_joint(kind.batch(words), owner, rows)


@pytest.mark.parametrize(
    ("temperature", "particles", "threshold"), [(1.0, 3, 1.0), (2.0, 4, 1.0), (0.5, 8, 0.97)]
)
@each_kind
def test_estimates_and_their_inverses_are_unbiased(kind, temperature, particles, threshold):
    """Against the sum over all trees, within 4 standard errors; paths as often as they should."""
    model, proposal = kind.pair()
    words, count = kind.sentences[0], 1200
    rows, log_p = joint(kind, model)
    truth = log_p.logsumexp(0)
    batch = kind.batch(*[words] * count)
    uniforms = numbers(count, particles, numbers_needed(proposal, batch), seed=particles)
    setting = FilterSetting(model, proposal, batch, particles, temperature, threshold)
    found = smc_paths(setting, uniforms)
    assert (found.estimate.effective[:, :-1] < threshold * particles).any()
    generator = torch.Generator().manual_seed(2)
    places = torch.multinomial(log_p.softmax(0), count, True, generator=generator)
    above = conditional_smc(setting, uniforms, rows[places])
    for ratios in ((found.estimate.log_prob - truth).exp(), (truth - above.log_prob).exp()):
        error = float(ratios.std()) / math.sqrt(count)
        assert error < 0.08
        assert abs(float(ratios.mean()) - 1) < 4 * error
    assert found.estimate.log_prob.mean() < truth < above.log_prob.mean()
    same = (found.latents[:, :, None] == rows[:, : found.latents.shape[2]]).all(3)  # (F, K, Z)
    assert same.any(2).all()
    each = (same * (found.log_weights - truth).exp()[..., None]).sum(1) / particles  # (F, Z)
    often = (each > 0).sum(0) > 100
    assert often.sum() > 3
    error = each.std(0) / math.sqrt(count)
    assert ((each.mean(0) - log_p.softmax(0)).abs() < 4.5 * error)[often].all()


class Posterior:
    """p(z | x) of one sentence by enumeration, word by word; it promises log p(x_t, ... | past)."""

    def __init__(self, model, rows, log_p, choices, walked):
        self._log_p, self._choices, self._walked = log_p, choices, walked
        self.word_draws = 1

    class State(NamedTuple):
        """Which trees particles can still come to, (K, Z), and log p of their words so far."""

        possible: torch.Tensor
        time: int

        def select(self, rows):
            return self._replace(possible=self.possible[rows])

    def start(self, batch, owner):
        return self.State(torch.ones(len(owner), len(self._log_p), dtype=torch.bool), 0)

    def propose(self, state, time, uniforms, temperature):
        shares = self._log_p.exp() * state.possible  # (K, Z)
        tree = torch.searchsorted(shares.cumsum(1), uniforms * shares.sum(1, keepdim=True))[:, 0]
        choice = self._choices[tree, time]  # (K,) or (K, C)
        own = self._choices[:, time]  # (Z,) or (Z, C)
        agree = own == choice[:, None]
        agree = agree.all(2) if agree.ndim > 2 else agree  # (K, Z)
        possible = state.possible & agree
        log_q = (shares * agree).sum(1).log() - shares.sum(1).log()
        return choice, log_q, self.State(possible, time + 1)

    def log_twist(self, state, time):
        log_joint = self._log_p.masked_fill(~state.possible, -math.inf).logsumexp(1)  # (K,)
        first = state.possible.int().argmax(1)  # (K,): a tree that begins so
        return log_joint - self._walked[first, time]


@each_kind
def test_the_posterior_as_proposal_has_no_variance(kind):
    """With the promise that goes with it at any threshold; without it where nothing is redrawn."""
    model, _ = kind.pair()
    words = kind.sentences[0]
    rows, log_p = joint(kind, model)
    batch, owner = kind.batch(words), torch.zeros(len(rows), dtype=torch.int64)
    choices = model.split_latents(rows, batch.lengths[TOKENS][owner])
    state, walked = model.start(batch, owner), [torch.zeros(len(rows)).double()]
    with torch.no_grad():
        for time in range(len(words)):
            found, state = model.extend(state, time, choices[:, time])
            walked.append(walked[-1] + found)
    posterior = Posterior(model, rows, log_p, choices, torch.stack(walked, 1))
    many = kind.batch(*[words] * 20)
    uniforms = numbers(20, 16, len(words), seed=4)
    truth = log_p.logsumexp(0).expand(20)
    for threshold in (0.0, 0.5, 1.0):
        found = smc_log_prob(FilterSetting(model, posterior, many, 16, 1.0, threshold), uniforms)
        torch.testing.assert_close(found.log_prob, truth, atol=1e-10, rtol=0)
        assert (found.effective.nan_to_num(16.0) > 15.999).all()


@each_kind
def test_an_instance_does_not_depend_on_the_others(kind):
    model, proposal = kind.pair(double=False)
    batch = kind.batch(*kind.sentences)
    uniforms = numbers(len(kind.sentences), 16, numbers_needed(proposal, batch))
    both = smc_log_prob(FilterSetting(model, proposal, batch, 16, 1.0, 0.9), uniforms)
    for row, words in enumerate(kind.sentences):
        alone = smc_log_prob(
            FilterSetting(model, proposal, kind.batch(words), 16, 1.0, 0.9), uniforms[row : row + 1]
        )
        torch.testing.assert_close(alone.log_prob[0], both.log_prob[row], atol=2e-5, rtol=0)


@pytest.mark.parametrize(("particles", "few"), [(3, 1), (40, 2), (300, 4)])
@each_kind
def test_a_run_does_not_depend_on_how_many_there_are(kind, particles, few):
    """Bit for bit, in single precision, on a long sentence."""
    sizes = {"size": 24} if kind is KINDS["binary"] else {"size": 24, "maximum_run": 2}
    pair = Pair(*kind.pair(double=False, **sizes), 5, "p/q")
    words = np.random.default_rng(0).integers(2, 9, 13).tolist()
    instance = Instance(7, {TOKENS: np.array(words), "actions": np.zeros(0, np.int64)})
    found, fewer = (
        [list(run_smc(pair, [instance], SMCOptions(particles, runs, 2.0, 0.9), range(runs)))]
        for runs in (25, few)
    )
    for name in ("log_likelihood", "ess_min"):
        values, expected = (
            np.concatenate([block[name] for block in one[0]]) for one in (found, fewer)
        )
        assert np.array_equal(values[:few], expected)
        assert len(set(values)) > 20


# ---- simulated sentences ----


def tiny(name):
    """Make a model over two words whose sentences are short."""
    if name == "binary":
        model, _ = binary_pair(vocabulary=4)
        with torch.no_grad():
            model.reduce.bias.fill_(1.5)
            model.word_bias[1] = 2.0
        return model
    model, _ = labelled_pair(vocabulary=4, labels=("A",), maximum_open=2)
    with torch.no_grad():
        model.choice.bias[1] = 2.0
        model.choice.bias[2] = -1.0
    return model


@pytest.mark.parametrize("name", KINDS)
def test_simulated_sentences_have_the_enumerated_probabilities(name):
    """χ² over all sentences of up to three words with their trees, and all others together."""
    kind, model, count = KINDS[name], tiny(name), 6000
    drawn = model.simulate(3, "test", range(count), 9, VOCABULARY)
    found = Counter((*one.instance.arrays[TOKENS], "/", *one.latents.tolist()) for one in drawn)
    expected = {}
    for length in (1, 2, 3):
        rows = rows_of(kind.trees(model, length))
        for words in itertools.product([2, 3], repeat=length):
            owner = torch.zeros(len(rows), dtype=torch.int64)
            with torch.no_grad():
                log_p = model.log_joint(kind.batch(list(words)), owner, rows)
            for row, value in zip(rows.tolist(), log_p.tolist(), strict=True):
                tree = [action for action in row if action != FILLING]
                expected[(*words, "/", *tree)] = count * math.exp(value)
    seen = {key: value for key, value in expected.items() if value >= 5}
    assert len(seen) > 8
    counts = [found[key] for key in seen]
    rest = count - sum(seen.values())
    assert chisquare([*counts, count - sum(counts)], [*seen.values(), rest]).pvalue > 1e-3
    assert not any(one.truncated for one in drawn if len(one.words) < 9)


@pytest.mark.parametrize("name", KINDS)
def test_a_simulated_sentence_depends_on_its_number_alone_and_is_an_instance(name):
    kind = KINDS[name]
    model, _ = kind.pair(double=False)
    vocabulary = ClosedVocabulary([f"w{place}" for place in range(6)], 1)
    many = model.simulate(3, "test", range(5, 90), 6, vocabulary)
    few = model.simulate(3, "test", range(70, 72), 6, vocabulary)
    for one, other in zip(many[65:67], few, strict=True):
        assert one.words == other.words
        assert torch.equal(one.latents, other.latents)
        assert one.truncated == other.truncated
    assert [one.instance.instance_id for one in many] == list(range(5, 90))
    assert any(one.truncated for one in many)
    assert not all(one.truncated for one in many)
    batch = InstanceBatch.of(one.instance for one in many)
    with torch.no_grad():
        log_p = model.log_joint(batch, torch.arange(85), model.annotated(batch))
    assert torch.isfinite(log_p).all()  # also a sentence that is cut has a whole tree
    for one in many:
        assert torch.equal(torch.from_numpy(one.instance.arrays["actions"]), one.latents)
        assert vocabulary.encode([" ".join(one.words)])[0].tolist() == list(
            one.instance.arrays[TOKENS]
        )
        assert one.truncated <= (len(one.words) == 6)
    other = model.simulate(4, "test", range(5, 90), 6, vocabulary)
    assert [one.words for one in many] != [one.words for one in other]


def test_classes_of_unknown_words_are_written_by_their_names(tmp_path):
    model = test_rnng.RNNG(4, {"size": 5, "dropout": 0.0}, ["<unk-digit>"]).eval()
    with torch.no_grad():
        model.word_bias[4] = 2.0
    words = {word for one in model.simulate(1, "x", range(40), 5, VOCABULARY) for word in one.words}
    assert words == {"<unk>", "a", "<unk-digit>"}
