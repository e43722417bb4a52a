"""Masked diffusion and its orders.

Oracles: `masked_diffusion_reference` (one mask at a time, in NumPy), sums over all orders, all
texts and all masks, exact sums for estimates. What all families share: `test_latent_families`.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import AutoTokenizer, BertModel

from beyond_perplexity.corpus.latent_instances import CorpusFiles, Instance, InstanceBatch
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.model_pair import load_pair, weigh
from beyond_perplexity.importance.particle_runs import FilterSetting, conditional_smc, smc_log_prob
from beyond_perplexity.importance.posterior_latents import score_beside
from beyond_perplexity.importance.ways_to_draw import WeightOptions
from beyond_perplexity.models.latents import masked_diffusion
from beyond_perplexity.models.latents.masked_diffusion import MaskedDiffusion
from beyond_perplexity.models.latents.masked_diffusion_lengths import (
    LengthModel,
    bin_lengths,
    bin_starts,
)
from beyond_perplexity.models.latents.masked_diffusion_orders import UNIFORM, ConfidenceOrders
from beyond_perplexity.models.latents.masked_diffusion_scores import MOST_EXACT
from beyond_perplexity.models.latents.masked_huggingface import WindowLengths, bring_masked
from beyond_perplexity.models.registry import load_any
from beyond_perplexity.planning.job_costs import JobCosts
from beyond_perplexity.schemas.corpora import MENTIONS, RAW
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.training.fitting import fit_files
from tests.unit import huggingface_models, planned
from tests.unit import masked_diffusion_reference as reference
from tests.unit.evaluator_oracles import check_refused
from tests.unit.rnng_corpus import VOCABULARY, rows_of, write_corpus
from tests.unit.small_corpora import write_documents

SIZES = {"width": 8, "heads": 2, "feedforward_size": 12, "layers": 2}
LENGTHS = [2, 1, 3, 2, 2, 2, 1, 1, 1]  # as many training texts of 0, 1, ... words
TEMPERATURES = (0.05, 0.5, 1.0, 2.0, UNIFORM)


def make(vocabulary=9, double=True, scale=0.6, lengths=LENGTHS, **options):
    torch.manual_seed(1)
    model = MaskedDiffusion(vocabulary, {**SIZES, **options}, lengths=lengths)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * scale)
    return (model.double() if double else model).eval()


def batch_of(*texts):
    every = enumerate(texts)
    return InstanceBatch.of(
        Instance(k, {"tokens": np.array(text, int), "latents": np.arange(len(text))})
        for k, text in every
    )


def all_orders(length):
    return [list(order) for order in itertools.permutations(range(length))]


def log_length(model, n):
    return float(model.lengths.log_prob(np.array([n]))[0])


def zeros(count):
    return torch.zeros(count, dtype=torch.int64)


@torch.no_grad()
def test_weights_are_those_of_a_plain_loop():
    model, text = make(), [4, 3, 8, 8, 5, 2, 7]
    weights, generator = reference.weights_of(model), np.random.default_rng(0)
    proposal = ConfidenceOrders(model)
    orders = [generator.permutation(7).tolist() for _ in range(5)]
    batch = batch_of([3], text)
    log_p = model.log_joint(batch, zeros(5) + 1, rows_of(orders))
    log_q = proposal.log_prob(batch, zeros(5) + 1, rows_of(orders), TEMPERATURES)
    for row, order in enumerate(orders):
        product, chosen = reference.weigh(weights, 2, text, order, TEMPERATURES)
        expected = product - math.log(math.factorial(7)) + log_length(model, 7)
        assert float(log_p[row]) == pytest.approx(expected, abs=1e-9)
        assert log_q[row].tolist() == pytest.approx(chosen.tolist(), abs=1e-5)  # UNIFORM is exact
    uniform = -math.log(math.factorial(7))
    assert log_q[:, -1].tolist() == pytest.approx([uniform] * 5, abs=1e-12)
    others = [[0, 1, 2, 3, 4, 5, -1], [0, 1, 2, 3, 4, 5, 5], [1, 2, 3, 4, 5, 6, 7]]
    others += [[0, 1, 2, 3, 4, 5, 9], [-1, 0, 1, 2, 3, 4, 5]]
    wrong = torch.cat([rows_of(others), torch.full((5, 1), -1)], 1)
    wrong = torch.cat([wrong, torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7]])])
    assert (model.log_joint(batch, zeros(6) + 1, wrong) == -math.inf).all()
    assert (model.log_joint(batch, zeros(1) + 1, torch.tensor([[0, 1]])) == -math.inf).all()
    found = proposal.log_prob(batch, zeros(5) + 1, wrong[:5], [1.0, UNIFORM])
    assert (found == -math.inf).all()


@torch.no_grad()
def test_the_exact_sum_is_that_over_all_orders_whatever_draws_them():
    model, proposal = make(), ConfidenceOrders(make())
    for text in ([5], [4, 3], [2, 8, 8], [4, 3, 8, 8, 5], [4, 3, 8, 7, 6, 2]):
        orders, batch = rows_of(all_orders(len(text))), batch_of(text)
        owner = zeros(len(orders))
        log_p = model.log_joint(batch, owner, orders)
        exact = float(model.exact_log_prob(batch)[0])
        assert exact == pytest.approx(float(log_p.logsumexp(0)), abs=1e-9)
        for log_q in proposal.log_prob(batch, owner, orders, TEMPERATURES).T:
            weights = (log_p - log_q - exact).exp()  # of p(x)
            assert float((log_q.exp() * weights).sum()) == pytest.approx(1, abs=1e-9)
    assert math.isnan(model.exact_log_prob(batch_of([3] * (MOST_EXACT + 1)))[0])
    texts = [[3] * (MOST_EXACT + 1), [4, 2, 8]]
    held = [
        Instance(k, {"tokens": np.array(t), "latents": np.arange(len(t))})
        for k, t in enumerate(texts)
    ]
    (row,) = model.exact_rows(held)
    assert (row["instance_id"], row["n_words"], row["n_tokens"], row["n_unknown"]) == (1, 3, 4, 1)
    assert row["log_likelihood"] == pytest.approx(float(model.exact_log_prob(batch_of(texts[1]))))
    assert row["log_likelihood_end"] == pytest.approx(log_length(model, 3))


@torch.no_grad()
def test_texts_of_up_to_four_words_have_the_probability_of_their_lengths():
    """Over all 121 texts of three words: of the mean over orders and of the deterministic one."""
    model = make(vocabulary=5)
    bare = make(vocabulary=5, count_eos=False)
    lengths = [log_length(model, n) for n in range(5)]
    total = {"orders": math.exp(lengths[0]), "deterministic": math.exp(lengths[0])}
    for n in range(1, 5):
        batch = batch_of(*itertools.product((2, 3, 4), repeat=n))
        total["orders"] += float(model.exact_log_prob(batch).exp().sum())
        for text in itertools.product((2, 3, 4), repeat=n):
            total["deterministic"] += math.exp(model.deterministic_log_probs(batch_of(text)).sum())
        assert float(bare.exact_log_prob(batch).exp().sum()) == pytest.approx(1, abs=1e-9)
    wanted = sum(map(math.exp, lengths))
    assert total == pytest.approx({"orders": wanted, "deterministic": wanted}, abs=1e-9)


@torch.no_grad()
def test_deterministic_unmasking_shows_the_surest_first_and_equal_ones_in_order():
    model, text = make(), [4, 3, 8, 5, 6]
    weights, hidden, said = reference.weights_of(model), [True] * 5, [0.0] * 5
    while any(hidden):
        table = reference.said(weights, 2, text, hidden)
        entropy = -(np.exp(table) * table).sum(1)
        place = min(np.flatnonzero(hidden), key=lambda at: entropy[at])
        said[place], hidden[place] = table[place, text[place] - 2], False
    found = model.deterministic_log_probs(batch_of(text))
    assert found.tolist() == pytest.approx([*said, log_length(model, 5)], abs=1e-9)
    for weight in model.parameters():
        weight.zero_()  # all words are as probable as each other everywhere
    batch = batch_of(text)
    assert model.mask_scores(batch, 0).most_confident_first()[1] == [0, 1, 2, 3, 4]
    expected = log_length(model, 5) - 5 * math.log(7)
    assert model.deterministic_log_probs(batch).sum() == pytest.approx(expected)
    (row,) = score_beside(
        model, model, [Instance(7, {n: np.array(text) for n in ("tokens", "latents")})]
    )
    assert row["log_likelihood"] == pytest.approx(expected)
    assert (row["n_tokens"], row["log_likelihood_end"]) == (6, pytest.approx(log_length(model, 5)))
    assert float(model.exact_log_prob(batch)[0]) == pytest.approx(expected)


@torch.no_grad()
def test_estimates_of_forty_texts_agree_with_exact_sums():
    """By samples and by particles, from both sides: z values of p̂ / p, with Bonferroni."""
    model = make(scale=0.2)  # with more the weights of long texts have tails too heavy for a z
    proposal, random = ConfidenceOrders(model), np.random.default_rng(4)
    texts = [random.integers(2, 9, 1 + k % 12).tolist() for k in range(40)]
    ratios = []
    for k, text in enumerate(texts):
        batch, n = batch_of(text), len(text)
        exact = model.exact_log_prob(batch)
        temperature = TEMPERATURES[1:][k % 4]
        numbers = torch.from_numpy(random.random((320, n)))
        drawn = proposal.sample(batch, zeros(320), numbers, temperature)
        log_q = proposal.log_prob(batch, zeros(320), drawn, [temperature])[:, 0]
        samples = (model.log_joint(batch, zeros(320), drawn) - log_q - exact).exp()
        setting = FilterSetting(model, proposal, batch, 8, temperature)
        numbers = torch.from_numpy(random.random((40, 9, n)))
        particles = (smc_log_prob(setting, numbers, zeros(40)).log_prob - exact).exp()
        if n <= 5:  # given a draw of the posterior, the mean of p / p̂ is 1
            every = rows_of(all_orders(n))
            shares = model.log_joint(batch, zeros(len(every)), every).softmax(0)
            held = every[random.choice(len(every), 40, p=shares.numpy())]
            reverse = conditional_smc(setting, numbers, held, zeros(40)).log_prob
            ratios.append((exact - reverse).exp())
        ratios += [samples, particles]
    z = [float((r.mean() - 1) / (r.std() / len(r) ** 0.5 + 1e-9)) for r in ratios]
    assert max(map(abs, z)) < stats.norm.isf(0.005 / len(z))
    assert np.std(z) > 0.3


@torch.no_grad()
def test_promises_keep_particles_apart_from_easy_words_first():
    """With a promise of what is hidden the estimates of a text vary less than without."""
    model, text, random = make(), [4, 3, 8, 8, 5, 2, 7, 6], np.random.default_rng(0)
    numbers = torch.from_numpy(random.random((200, 9, 8)))
    spread = []
    for kind in (ConfidenceOrders, type("Bare", (ConfidenceOrders,), {})):
        proposal = kind(model)
        if kind is not ConfidenceOrders:
            proposal.log_twist = lambda state, time: torch.zeros(len(state.owner)).double()
        setting = FilterSetting(model, proposal, batch_of(text), 8, 2.0)
        spread.append(float(smc_log_prob(setting, numbers, zeros(200)).log_prob.std()))
    assert spread[0] < 0.8 * spread[1]


def test_lengths_add_up_to_one_are_smoothed_and_drawn():
    random = np.random.default_rng(0)
    held = [*random.poisson(20, 50).tolist(), 0, 70]
    model = LengthModel(bin_lengths(held))
    n = np.arange(20_000)
    p = np.exp(model.log_prob(n))
    assert p.sum() == pytest.approx(1)
    assert (p[:2000] > 0).all()
    starts = list(itertools.takewhile(lambda start: start <= 70, bin_starts()))
    assert len(bin_lengths(held)) == len(starts)
    assert sum(bin_lengths(held)) == 52
    assert p[starts[-1]] == pytest.approx(1.5 / (52 + (len(starts) + 1) / 2) / (starts[-1] // 8))
    drawn = model.draw(random.random(20_000))
    edges = [*starts, 80, 10**9]
    seen, _ = np.histogram(drawn, edges)
    wanted = 20_000 * np.add.reduceat(p, [*starts, 80])
    assert stats.chisquare(seen, wanted * seen.sum() / wanted.sum()).pvalue > 0.01
    assert np.exp(LengthModel([]).log_prob(n)).sum() == pytest.approx(1)
    assert model.draw(np.array([0.0, np.nextafter(1, 0)])).tolist()[0] == 0


def test_the_loss_is_on_average_that_of_a_random_order(monkeypatch):
    """Over all numbers of hidden words and all orders of hiding them, enumerated."""
    model, text = make(), [4, 3, 8]
    batch, orders = batch_of(text, [5]), rows_of(all_orders(3))
    losses = []
    for count, order in itertools.product(range(3), all_orders(3)):
        numbers = torch.tensor([[(count + 0.5) / 3, *(k / 3 for k in order)], [0.5, 0, 0, 0]])
        monkeypatch.setattr(model, "_loss_numbers", lambda _, numbers=numbers: numbers)
        losses.append(float(model.loss(batch).detach()))
    joint = model.log_joint(batch, zeros(6), orders) + math.log(6)
    other = model.log_joint(batch, zeros(1) + 1, torch.tensor([[0]]))
    assert np.mean(losses) == pytest.approx(-float(joint.mean() + other), rel=1e-5)


def test_it_learns_a_grammar_leaves_long_texts_out_and_is_read_again(tmp_path):
    write_corpus(tmp_path)
    write_shard(tmp_path / "mentions.parquet", MENTIONS, {n: [] for n in MENTIONS.names}, {})
    VOCABULARY.save(tmp_path / "words.json")
    config = {"family": "masked-diffusion"}
    config |= {"architecture": {"width": 32, "feedforward_size": 64, "dropout": 0.0}}
    config |= {"training": {"maximum_steps": 250, "learning_rate": 0.01, "batch_tokens": 1024}}
    config["architecture"]["maximum_words"] = 40
    config["training"] |= {"maximum_epochs": 100, "patience": 100}
    documents, words = tmp_path / "documents.parquet", tmp_path / "words.json"
    folders = tmp_path / "model", tmp_path / "checkpoints"
    fit_files(documents, words, config, 1, torch.device("cpu"), *folders, {})
    model, vocabulary, description = load_any(tmp_path / "model")
    files = CorpusFiles.of(tmp_path)
    held = list(model.instances(files, "test", vocabulary))
    train = list(model.instances(files, "train", vocabulary))
    pieces = list(model.train().instances(files, "train", vocabulary))
    model.eval()
    assert len(pieces) > 90
    assert {len(one.arrays["tokens"]) > 40 for one in pieces} == {False}
    assert max(len(one.arrays["tokens"]) for one in held) <= 40
    assert sum(model.shapes["lengths"]) == len(train) < 90
    batch = InstanceBatch.of(held)
    owner = torch.arange(len(held))
    bound = model.log_joint(batch, owner, model.annotated(batch))
    bound = bound + torch.lgamma(batch.lengths["tokens"] + 1.0)
    per_word = -float(bound.sum()) / batch.predictions
    ids = np.concatenate([one.arrays["tokens"] for one in held])
    shares = np.bincount(ids) / len(ids)
    assert per_word < 0.93 * -float(np.log(shares[ids]).mean())  # what each word costs by itself
    assert description["family"] == "masked-diffusion"
    assert model.hidden_scores(torch.tensor([3, 4]), torch.ones(1, 2, dtype=torch.bool)).shape
    check_refused("width: is 10", make, width=10, heads=4)


@torch.no_grad()
def test_scores_do_not_depend_on_what_else_is_asked(monkeypatch):
    """In single precision, bit for bit: other masks, blocks, and a store that begins anew."""
    model, tokens = make(double=False, width=16), torch.tensor([4, 3, 8, 8, 5, 2, 7, 6, 3])
    random = np.random.default_rng(0)
    hidden = torch.from_numpy(random.random((200, 9)) < 0.6)
    whole = model.hidden_scores(tokens, hidden)
    for rows in (torch.tensor([7]), torch.arange(17), torch.from_numpy(random.permutation(200))):
        assert torch.equal(model.hidden_scores(tokens, hidden[rows]), whole[rows])
    monkeypatch.setitem(masked_diffusion.POSITIONS_OF_PASS, "cpu", 9 * 32)
    monkeypatch.setitem(masked_diffusion.WORDS_OF_PASS, "cpu", 48)
    assert torch.equal(model.hidden_scores(tokens, hidden), whole)
    monkeypatch.setattr(
        "beyond_perplexity.models.latents.masked_diffusion_scores.HELD_BYTES", 9 * 16 * 50
    )
    scores = model.mask_scores(batch_of(tokens.tolist()), 0)
    for part in torch.arange(200).split(30):
        assert torch.equal(scores(hidden[part]), whole[part])
    assert torch.equal(scores(hidden), whole)


# ---- masked models of Hugging Face ----

TEXT = "the cat sat on the log ."


def said_by_transformers(network, tokenizer, tokens, hidden):
    """Return log p of every token of a text at each place, of one mask, by transformers alone."""
    read = [
        tokenizer.mask_token_id if out else token for token, out in zip(tokens, hidden, strict=True)
    ]
    row = [tokenizer.cls_token_id, *read, tokenizer.sep_token_id]
    logits = network(input_ids=torch.tensor([row])).logits[0, 1:-1].double()
    never = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    never |= set(range(len(tokenizer), logits.shape[1]))
    logits[:, sorted(never)] = -math.inf
    return logits.log_softmax(1)


@pytest.fixture(params=[False, True], ids=["bert", "roberta"])
def masked(tmp_path, request):
    network = huggingface_models.make_masked(tmp_path / "masked", roberta=request.param)
    model, vocabulary, source = bring_masked({"path": str(tmp_path / "masked")}, {"language": "en"})
    assert list(source["weights"]) == ["model.safetensors"]
    model.lengths = WindowLengths(LENGTHS, model.shapes["window"])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "masked")
    return model, vocabulary, network, tokenizer


@torch.no_grad()
def test_a_masked_model_has_the_mean_over_orders_by_transformers(masked):
    """Oracle: sums over sets of shown tokens, and over all texts of one token, by a plain loop."""
    model, vocabulary, network, tokenizer = masked
    for text in ("the", "a rose is", TEXT):
        ids = vocabulary.encode([text])[0]
        theirs = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert (ids - 3).tolist() == theirs
        n, mean = len(ids), {frozenset(): 1.0}
        for size in range(1, n + 1):
            for shown in map(frozenset, itertools.combinations(range(n), size)):
                mean[shown] = 0.0
                for i in shown:
                    hidden = [k not in shown - {i} for k in range(n)]
                    table = said_by_transformers(network, tokenizer, theirs, hidden)
                    mean[shown] += mean[shown - {i}] * math.exp(table[i, theirs[i]]) / size
        batch = batch_of(ids)
        exact = float(model.exact_log_prob(batch)[0])
        wanted = math.log(mean[frozenset(range(n))]) + log_length(model, n)
        assert exact == pytest.approx(wanted, abs=1e-5)
        if n <= 4:
            orders = rows_of(all_orders(n))
            joint = model.log_joint(batch, zeros(len(orders)), orders)
            assert exact == pytest.approx(float(joint.logsumexp(0)), abs=1e-9)
    every = [k for k in range(2, vocabulary.size) if k not in vocabulary.impossible]
    total = float(model.exact_log_prob(batch_of(*([k] for k in every))).logsumexp(0))
    assert total == pytest.approx(log_length(model, 1), abs=1e-6)
    window = model.shapes["window"]
    assert window == 20 - 2 - ("roberta" in type(network).__name__.lower())
    longest = torch.tensor(([5, 6, 7] * 7)[:window])
    assert model.hidden_scores(longest, torch.ones(1, window, dtype=torch.bool)).isfinite().all()
    masses = np.exp(model.lengths.log_prob(np.arange(window + 2)))
    assert (masses.sum(), masses[-1]) == (pytest.approx(1), 0)
    assert model.lengths.draw(np.array([0, 0.5, 1 - 1e-16])).max() == window
    assert "[CLS] the [SEP]" not in vocabulary.decode([vocabulary.encode(["[CLS] the"])[0]])


@torch.no_grad()
def test_scores_of_masked_models_depend_on_nothing_else_and_texts_are_drawn_by_them(masked):
    """Oracles: other masks, bit for bit; frequencies of texts of one token (χ²)."""
    model, vocabulary, *_ = masked
    tokens, random = torch.from_numpy(vocabulary.encode([TEXT])[0]).long(), np.random.default_rng(0)
    hidden = torch.from_numpy(random.random((60, len(tokens))) < 0.6)
    whole = model.hidden_scores(tokens, hidden)
    for rows in (torch.tensor([7]), torch.from_numpy(random.permutation(60))):
        assert torch.equal(model.hidden_scores(tokens, hidden[rows]), whole[rows])
    drawn = model.simulate(1, "t", range(3_000), 12, vocabulary)
    single = [int(one.instance.arrays["tokens"][0]) for one in drawn if len(one.latents) == 1]
    every = [k for k in range(2, vocabulary.size) if k not in vocabulary.impossible]
    p = model.exact_log_prob(batch_of(*([k] for k in every))).exp().numpy()
    assert len(single) / 3_000 == pytest.approx(p.sum(), abs=0.03)
    likely = np.argsort(-p)[:4]
    seen = np.array([single.count(every[k]) for k in likely])
    counts = [*seen, len(single) - seen.sum()]
    wanted = np.append(p[likely], p.sum() - p[likely].sum()) / p.sum() * len(single)
    assert stats.chisquare(counts, wanted).pvalue > 0.001


def test_masked_models_are_brought_into_a_folder_and_weighed_as_others(tmp_path):
    """Oracle: exact sums; the folder says the same as the model that was brought."""
    huggingface_models.make_masked(tmp_path / "masked")
    texts = ["The cat sat", "a rose is a rose", "the dog", "the new .", "said the low"] * 8
    write_documents(tmp_path / "documents.parquet", texts, (["train"] * 3 + ["valid", "test"]) * 8)
    write_shard(tmp_path / "raw.parquet", RAW, {"doc_id": range(40), "text": texts}, {})
    config = {"family": "huggingface-masked", "architecture": {"path": str(tmp_path / "masked")}}
    files = tmp_path / "documents.parquet", None, config, 1, torch.device("cpu")
    fit_files(*files, tmp_path / "model", tmp_path / "checkpoints", {})
    pair, vocabulary = load_pair(tmp_path / "model", tmp_path / "model", "cpu", 1, "m/o")
    corpus = CorpusFiles.of(tmp_path)
    held = list(pair.model.instances(corpus, "test", vocabulary))
    assert [one.instance_id for one in held] == list(range(4, 40, 5))
    assert sum(pair.model.shapes["lengths"]) == 24
    assert pair.model.t_definition == "tokens of its own and the end"
    bare, *_ = bring_masked(config["architecture"] | {"count_eos": False}, {})
    one = pair.batch(held[0])
    assert (bare.t_definition, int(bare.n_tokens(one)[0])) == (
        "tokens of its own",
        one.tokens.shape[1],
    )
    end = float(pair.model.length_log_prob(one.lengths["tokens"])[0])
    given = [float(model.exact_log_prob(one)[0]) for model in (pair.model, bare)]
    assert given[0] == pytest.approx(given[1] + end)
    batch = pair.batch(held[0])
    exact = float(pair.model.exact_log_prob(batch)[0])
    (columns,) = weigh(pair, held[:1], WeightOptions(temperature=1.0), range(600))
    weights = np.exp(columns["log_p"] - columns["log_q"] - exact)
    error = weights.std() / 600**0.5
    assert abs(weights.mean() - 1) < 4 * error
    setting = FilterSetting(pair.model, pair.proposal, batch, 8, 1.0)
    numbers = torch.from_numpy(
        np.random.default_rng(0).random((100, 9, len(held[0].arrays["tokens"])))
    )
    particles = (smc_log_prob(setting, numbers, zeros(100)).log_prob - exact).exp()
    assert float(particles.mean()) == pytest.approx(1, abs=4 * float(particles.std()) / 10)
    model, *_ = bring_masked(config["architecture"], {})
    model.with_lengths(corpus, vocabulary)
    assert float(model.exact_log_prob(batch)[0]) == exact
    wrong = {**config, "training": {"maximum_steps": 3}}
    with pytest.raises(InputError, match="taken as it is; remove it"):
        fit_files(files[0], None, wrong, *files[3:], tmp_path / "m", tmp_path / "c", {})


def test_what_is_no_distribution_over_orders_is_refused_in_one_line(tmp_path):
    make = huggingface_models.make_masked
    make(tmp_path / "none", without=("mask",))
    make(tmp_path / "headless", kind=BertModel)
    huggingface_models.make_gpt2(tmp_path / "causal")
    make(tmp_path / "few", rows=-3)
    for name, said in (
        ("none", "its tokenizer has no token that hides one"),
        ("headless", "its weights do not fit config.json"),
        ("causal", "holds no masked language model to load"),
        ("few", "the model has only"),
    ):
        with pytest.raises(InputError, match=said) as error:
            bring_masked({"path": str(tmp_path / name)}, {})
        assert "\n" not in str(error.value)
    held = {"family": "huggingface-masked", "corpus": "wikipedia", "architecture": {"path": "x"}}
    orders = {"model": "m", "family": "confidence-orders", "temperatures": [1.0]}
    smoke = "configs/smoke-importance.yaml"
    run = planned.run_of(smoke, models={"m": held}, proposals={"m-orders": orders})
    assert "<results>/corpora/wikipedia/raw.parquet" in run.models.tables("m")
    assert (run.models.vocabulary_files("m"), run.models.learns("m")) == ([], False)
    assert "vocabulary" not in run.models.find("m-orders")
    asked = {"model": "m", "proposal": "m-orders", "draw": "weights", "setting": "tau_1.0"}
    asked |= {"instances": "00000", "samples": "00000"}
    assert JobCosts(run).megabytes("draw", asked) >= 3000  # which asks both for their weights
    for more, said in (
        ({"vocabulary": "words"}, "brings its own tokenizer"),
        ({"training": {"maximum_steps": 5}}, "models.m.training: an external model"),
    ):
        assert said in planned.refused(planned.load(smoke, models={"m": held | more}))
