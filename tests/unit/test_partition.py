"""log Z given the length, and the perplexity that it gives a model without a likelihood.

Oracles: the sum over all sequences of a tiny model, importance weights by hand, means of many
estimates, closed forms; other batches, orders and lengths.
"""

import itertools
import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from beyond_perplexity.contrastive import PartitionOptions, partition
from beyond_perplexity.contrastive.partition import GivenLength, WordProposal, draw_log_partitions
from beyond_perplexity.inference.log_space import log_mean_exp
from beyond_perplexity.models import registry, sentence_rnn
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.models.trigram import Trigram
from beyond_perplexity.random_streams import stream
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.evaluator_oracles import check_refusals, run_script

SIZE, LONGEST = 6, 4  # four words, <unk> among them
LENGTHS = np.arange(1, LONGEST + 1)


def make(scale=4.0):
    torch.manual_seed(1)
    model = sentence_rnn.SentenceRNN(SIZE, {"size": 5}).eval()
    with torch.no_grad():
        model.output.mul_(scale)
    return model


def language_model(**config):
    torch.manual_seed(2)
    sizes = {"embedding_size": 6, "hidden_size": 6}
    config = {"family": "rnn", "architecture": sizes, **config}
    return registry.build(config, SIZE).eval()


def proposal_of(kind, uniform=0.0):
    model = None if kind == "uniform" else language_model()
    return WordProposal(model, SIZE, uniform, kind)


@torch.no_grad()
def exact_log_z(model, length):
    """Sum over all sequences of words."""
    every = torch.tensor(list(itertools.product(range(2, SIZE), repeat=length)))
    return float(model.sentence_log_scores(every, torch.full((len(every),), length)).logsumexp(0))


EXACT = [exact_log_z(make(), length) for length in LENGTHS]
SETTINGS = [
    *(("uniform", PartitionOptions(400, 1)), ("model", PartitionOptions(400, 1, 0.0))),
    *(("model", PartitionOptions(400, 1, 0.5)), ("uniform", PartitionOptions(60, 8))),
    ("model", PartitionOptions(60, 8, 0.0)),
]


def some_sentences(count=30, seed=3):
    generator = np.random.default_rng(seed)
    lengths = np.concatenate([LENGTHS, generator.integers(1, LONGEST + 1, count - LONGEST)])
    return partition.ScoredSentences(generator.normal(size=count), lengths, np.arange(count), 0)


@pytest.mark.parametrize(("kind", "options"), SETTINGS)
def test_the_estimate_is_within_four_standard_errors_of_the_enumeration(kind, options):
    proposal = proposal_of(kind, options.uniform)
    weights = draw_log_partitions(make(), proposal, LENGTHS, options, 5, "test")
    assert weights.shape == (options.samples, LONGEST)
    found = GivenLength(some_sentences(), weights, 5, "test")
    assert (found.errors > 0).all()
    assert (np.abs(found.log_z - EXACT) < 4 * found.errors).all()


@pytest.mark.parametrize(("kind", "particles"), [("uniform", 1), ("model", 1), ("model", 4)])
def test_estimates_are_unbiased_and_their_logarithms_too_low(kind, particles):
    """5,000 estimates of few samples: the mean of Ẑ is Z, that of log Ẑ below log Z."""
    options = PartitionOptions(20_000 // particles, particles)
    weights = draw_log_partitions(make(), proposal_of(kind), LENGTHS, options, 5, "mean")
    ratios = np.exp(weights - EXACT)
    errors = ratios.std(0) / math.sqrt(len(ratios))
    assert (np.abs(ratios.mean(0) - 1) < 4 * errors).all()
    few = log_mean_exp(weights.reshape(-1, 4, LONGEST), 1)  # of four samples each
    errors = few.std(0) / math.sqrt(len(few))
    assert (few.mean(0) < EXACT - 4 * errors)[1:].all()


def test_resampling_lowers_the_spread_and_with_the_model_itself_every_weight_is_z():
    """Against as many sequences, whose weights are averaged at the end."""
    model, lengths = make(6.0), np.array([60])
    options = [PartitionOptions(2048 // particles, particles) for particles in (1, 16)]
    q = proposal_of("uniform")
    plain, resampled = (draw_log_partitions(model, q, lengths, held, 5, "s") for held in options)
    assert resampled.std() < 0.7 * log_mean_exp(plain.reshape(128, 16), 1).std()

    # Scores log p of one-word sentences: q is p, and there is nothing to estimate
    class Same(WordProposal):
        def draw(self, tokens, state, numbers):
            every = torch.arange(2, SIZE)
            score = make().sentence_log_scores(every[:, None], torch.ones(4, dtype=int))
            place = torch.multinomial(score.softmax(0), len(tokens), replacement=True)
            return place + 2, score.log_softmax(0)[place], None

    proposal = Same(None, SIZE, 1.0, "same")
    with torch.no_grad():
        options = PartitionOptions(30, 1)
        weights = draw_log_partitions(make(), proposal, np.array([1]), options, 5, "same")
    np.testing.assert_allclose(weights[:, 0], EXACT[0], atol=1e-6)


@torch.no_grad()
def test_plain_weights_are_those_by_hand():
    """A sequence follows its own stream; its weight is e^(log score) / q, of every prefix."""
    model, q = make(), language_model()
    given = WordProposal(q, SIZE, 0.25, "q"), LENGTHS, PartitionOptions(5, 1)
    weights = draw_log_partitions(model, *given, 9, "hand")
    for run in range(5):
        numbers = stream(9, "hand", run).random(2 * LONGEST)[::2]
        words: list[int] = []
        of_model, uniform = 1.0, 1.0  # probabilities of the words so far
        for number in numbers:
            logits = q(torch.tensor([[0, *words]]))[0, -1, 2:].double()
            share = 0.25 * uniform / (0.75 * of_model + 0.25 * uniform)
            if number < share:
                place = int(number / share * 4)
            else:
                sums = logits.softmax(0).cumsum(0).numpy()
                place = int(np.searchsorted(sums, (number - share) / (1 - share), "right"))
            words.append(2 + place)
            of_model, uniform = of_model * float(logits.softmax(0)[place]), uniform / 4
            log_q = math.log(0.75 * of_model + 0.25 * uniform)
            n = len(words)
            score = model.sentence_log_scores(torch.tensor([words]), torch.tensor([n]))
            assert weights[run, n - 1] == pytest.approx(float(score) - log_q, abs=1e-5)


@pytest.mark.parametrize("particles", [1, 8])
def test_runs_do_not_depend_on_their_number_or_on_lengths(particles, monkeypatch):
    monkeypatch.setattr(partition, "SEQUENCES_AT_ONCE", 16 * particles)  # three blocks
    model, proposal = make(), proposal_of("model")
    options = PartitionOptions(40, particles)
    whole = draw_log_partitions(model, proposal, LENGTHS, options, 5, "x")
    fewer = PartitionOptions(7, particles)
    some = draw_log_partitions(model, proposal, np.array([1, 3]), fewer, 5, "x")
    assert np.array_equal(some, whole[:7, [0, 2]])
    assert len(np.unique(whole[:, -1])) > 30
    other = draw_log_partitions(model, proposal, LENGTHS, options, 6, "x")
    assert (other[:, -1] != whole[:, -1]).mean() > 0.9


def test_proposals_and_scores_that_do_not_do_are_refused():
    trigram = Trigram.fit([[np.array([2, 3, 2, 4], np.int32)]], SIZE)
    sizes = {"width": 8, "heads": 2, "context_length": 3}
    short = language_model(family="transformer", architecture=sizes)
    broken = make()
    with torch.no_grad():
        broken.output[0, 0] = math.nan
    cases = {
        r"trigram: gives words no probability.*uniform above 0": (make(), trigram, 0.0, "trigram"),
        "gpt: conditions on 3 tokens at most, but a sentence has": (make(), short, 0.0, "gpt"),
        "no finite numbers": (broken, None, 0.0, "uniform"),
    }

    def draw_few(model, q, uniform, name):
        proposal = WordProposal(q, SIZE, uniform, name)
        draw_log_partitions(model, proposal, LENGTHS, PartitionOptions(5, 1), 5, "x")

    check_refusals(draw_few, cases)
    # unless uniform words are mixed in
    options, mixed = PartitionOptions(4000, 1, 0.3), WordProposal(trigram, SIZE, 0.3, "trigram")
    weights = draw_log_partitions(make(), mixed, LENGTHS, options, 5, "x")
    found = GivenLength(some_sentences(), weights, 5, "x")
    assert (np.abs(found.log_z - EXACT) < 4 * found.errors).all()


def test_the_perplexity_is_the_closed_form_and_its_interval_that_of_the_groups():
    """Weights without spread: log Z is known, and what is left is the spread of sentences."""
    held = some_sentences(200)
    log_z = np.log(4.0) * LENGTHS
    found = GivenLength(held, np.tile(log_z, (50, 1)), 5, "x")
    np.testing.assert_allclose(found.log_z, log_z, atol=1e-12)
    summary = found.summary()
    losses = log_z[held.lengths - 1] - held.log_scores
    words = held.lengths.sum()
    for name in ("perplexity_given_length", "perplexity_given_length_debiased"):
        assert summary[name] == pytest.approx(math.exp(losses.sum() / words))
    assert summary["log_prob_given_length"] == pytest.approx(-losses.sum())
    assert summary["standard_error_samples"] == pytest.approx(0, abs=1e-12)
    without = [np.delete(losses, i).sum() / np.delete(held.lengths, i).sum() for i in range(200)]
    error = math.sqrt(199 / 200 * np.square(np.array(without) - losses.sum() / words).sum())
    assert summary["standard_error_text"] == pytest.approx(error)
    low, high = summary["interval"]
    assert low < summary["perplexity_given_length"] < high
    assert math.log(high / low) == pytest.approx(2 * 1.98 * error, rel=0.01)
    assert summary["log_z_growth_per_word"] == pytest.approx(math.log(4.0))
    assert (summary["words"], summary["sentences"], summary["groups"]) == (words, 200, 200)
    held = partition.ScoredSentences(np.zeros(3), np.array([1, 2, 2]), np.zeros(3, int), 0)
    found = GivenLength(held, np.zeros((1, 2)), 5, "x")
    columns = found.columns("m", "q")
    assert columns["standard_error"] == columns["log_z_debiased"] == [None, None]
    assert found.summary()["interval"] == [None, None]
    json.dumps(found.summary(), allow_nan=False)


def test_the_error_of_samples_counts_that_lengths_share_them_and_few_are_said():
    """With weights that rise together, errors of lengths add up as they are, not as squares."""
    held, generator = some_sentences(200), np.random.default_rng(0)
    common = generator.normal(scale=0.3, size=(2000, 1))
    found = GivenLength(held, np.repeat(common, LONGEST, 1), 5, "x")
    relative = np.exp(common).std() / np.exp(common).mean() / math.sqrt(2000)
    np.testing.assert_allclose(found.errors, relative, rtol=0.15)
    together = 200 * relative / held.lengths.sum()
    assert found.summary()["standard_error_samples"] == pytest.approx(together, rel=0.15)
    held, generator = some_sentences(50), np.random.default_rng(0)
    bad = GivenLength(held, generator.normal(scale=12, size=(300, LONGEST)), 5, "x").summary()
    assert bad["sentences_few_effective"] == 50
    assert bad["ess_min"] < 3
    assert bad["pareto_k_max"] > bad["pareto_k_threshold"]
    assert bad["interval"] == [None, None]
    assert bad["perplexity_given_length"] > 0
    assert "Not to be trusted: 50 of 50" in "\n".join(partition.describe_given_length(bad))
    good = GivenLength(held, generator.normal(scale=0.1, size=(300, LONGEST)), 5, "x").summary()
    assert None not in good["interval"]
    assert good["sentences_few_effective"] == good["sentences_pareto_k_above"] == 0
    assert not any("Not to be trusted" in line for line in partition.describe_given_length(good))
    assert "may diverge" in partition.describe_given_length(good)[0]


def test_half_of_the_sentences_with_heavy_tails_have_no_interval():
    """Tails of 1 / 0.9: enough effective samples, but a Pareto k above its limit at one length."""
    held = partition.ScoredSentences(-np.ones(60), np.repeat([1, 2], 30), np.arange(60), unknown=0)
    light, heavy = np.random.default_rng(3).exponential(size=(2, 4000))
    found = GivenLength(held, np.stack([0.1 * light, 0.9 * heavy], 1), 5, "x").summary()
    assert found["sentences_few_effective"] == 0
    assert found["sentences_pareto_k_above"] == found["sentences_untrusted"] == 30
    assert found["interval"] == [None, None]
    assert not any("95% interval" in line for line in partition.describe_given_length(found))
    fewer = partition.ScoredSentences(-np.ones(59), held.lengths[:59], held.groups[:59], unknown=0)
    found = GivenLength(fewer, np.stack([0.1 * light, 0.9 * heavy], 1), 5, "x").summary()
    assert None not in found["interval"]


# The command


WORDS = ["a", "b", "c"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    base = tmp_path_factory.mktemp("command")
    vocabulary = ClosedVocabulary(WORDS, 1)
    assert vocabulary.size == SIZE
    save_model(base / "scored", make(), vocabulary, {})
    save_model(base / "q", language_model(), vocabulary, {})
    save_model(base / "other", language_model(), ClosedVocabulary(["a", "b", "d"], 1), {})
    (base / "text.txt").write_text("a b . c\nb\n\na z c b\n" * 12)
    return base


def command(folder, *flags):
    run_script("estimate_partition", "--model", folder / "scored", *flags)


def test_the_command_writes_a_row_a_length_and_the_perplexity(folder, tmp_path, capsys):
    flags = ["--text", folder / "text.txt", "--tokenized", "--name", "mine"]
    flags += ["--proposal", folder / "q", "--options", '{"samples": 200, "uniform": 0.0}']
    command(folder, *flags, "--output", tmp_path / "p.parquet")
    shown = capsys.readouterr()
    summary = json.loads(shown.out)
    table = pq.read_table(tmp_path / "p.parquet").to_pylist()
    # "a b ." and "c", with an unknown full stop; "b"; "a z c b" with an unknown z
    assert [(row["length"], row["sentences"]) for row in table] == [(1, 24), (3, 12), (4, 12)]
    for row in table:
        assert (row["model"], row["proposal"], row["bound"]) == ("mine", "q", "lower")
        error = 4 * row["standard_error"]
        assert row["log_z"] == pytest.approx(EXACT[row["length"] - 1], abs=error)
    log_z = {row["length"]: row["log_z"] for row in table}
    total = 0.0
    for ids in SENTENCES:
        score = make().sentence_log_scores(torch.tensor([ids]), torch.tensor([len(ids)]))
        total += 12 * (log_z[len(ids)] - float(score.detach()))
    assert (summary["words"], summary["unknown"]) == (12 * 9, 24)
    assert summary["perplexity_given_length"] == pytest.approx(math.exp(total / 108), rel=1e-6)
    assert "stochastic lower bound" in shown.err
    assert (summary["proposal"], summary["uniform"], summary["groups"]) == ("q", 0.0, 36)
    of_q = 12 * sum(endless_by_hand(language_model(), ids) for ids in SENTENCES)
    found = summary["proposal_perplexity_given_length"]
    assert found == pytest.approx(math.exp(-of_q / 108), rel=1e-5)


SENTENCES = ([3, 4, 2], [5], [4], [3, 2, 5, 4])


@torch.no_grad()
def endless_by_hand(model, ids):
    total = 0.0
    for place, word in enumerate(ids):
        p = model(torch.tensor([[0, *ids[:place]]]))[0, -1].double().softmax(0)
        total += math.log(p[word] / (1 - p[1]))
    return total


def test_the_likelihood_without_ends_sums_to_one_over_all_sentences_of_a_length():
    every = [np.array(ids) for ids in itertools.product(range(2, SIZE), repeat=3)]
    found = list(partition.endless_log_probs(language_model(), every))
    assert (len(found), math.fsum(map(math.exp, found))) == (64, pytest.approx(1, abs=1e-6))
    mixed = [np.array(ids) for ids in SENTENCES]
    by_hand = sorted(endless_by_hand(language_model(), ids) for ids in SENTENCES)
    found = partition.endless_log_probs(language_model(), mixed)
    assert sorted(found) == pytest.approx(by_hand, abs=1e-5)


def test_the_command_refuses_what_does_not_fit(folder):
    (folder / "blank.txt").write_text("\n \n")
    cases = {
        "has another vocabulary than": ["--proposal", folder / "other"],
        "scores sentences without a likelihood": ["--proposal", folder / "scored"],
        "--proposal: names several folders; give one": ["--proposal", folder / "q", folder / "q"],
        "options: samples: is 0, expected at least 1": ["--options", '{"samples": 0}'],
        "options: uniform: is 1.5": ["--options", '{"uniform": 1.5}'],
        "options.runs: unknown key; allowed are samples": ["--options", '{"runs": 3}'],
        "none.txt: no such file": ["--text", folder / "none.txt"],
        "the text has no words": ["--text", folder / "blank.txt"],
        "use beyond-perplexity perplexity": ["--model", folder / "q"],
    }
    given = ("--text", folder / "text.txt")
    check_refusals(command, {words: (folder, *given, *flags) for words, flags in cases.items()})
