"""The decoding engine and its kernels.

Oracles: exact enumeration of the truncated distributions of a table model (chi-square), a plain
NumPy implementation with a full sort, rescoring by the parallel pass, and invariance of texts under
batch size, shard size and threads for every neural family. Beam sampling:
enumeration of its definition over every sequence of draws, in plain Python (chi-square). The
trigram model: a dictionary count in plain Python; the dense engine on the same random numbers, text
for text. Needs nothing beyond the package.
"""

import itertools
import sys
from collections import Counter, defaultdict

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from beyond_perplexity import errors, random_streams
from beyond_perplexity.decoding import beam, generation, kernels, ngram, sampling
from beyond_perplexity.decoding.options import DECODINGS as ROWS
from beyond_perplexity.decoding.options import Decoding, DecodingOptions, parse_decoding
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.models import registry, trigram
from beyond_perplexity.storage.provenance import fingerprint
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_models import EOS, FAMILIES, TINY, TableModel, make, rescored, same
from tests.unit.threads import set_threads

pytestmark = pytest.mark.usefixtures("one_thread")
UNK = 2
DECODINGS = [
    *({"kind": "ancestral"}, {"kind": "ancestral", "temperature": 0.6, "unknown": "exclude"}),
    *({"kind": "nucleus", "mass": 0.7}, {"kind": "nucleus", "mass": 0.8, "temperature": 1.7}),
    {"kind": "nucleus", "mass": 0.9, "temperature": 1.5, "unknown": "exclude"},
    *({"kind": "top_k", "k": 2}, {"kind": "min_p", "p": 0.3}, {"kind": "typical", "mass": 0.6}),
    {"kind": "top_k", "k": 3, "unknown": "exclude", "temperature": 1.3},
    {"kind": "typical", "mass": 0.8, "temperature": 0.8},
    {"kind": "min_p", "p": 0.2, "unknown": "exclude", "temperature": 1.5},
]


def truncate(p, options):
    """Apply a decoding to one distribution, by the definitions, with full sorts."""
    q = p.astype(float).copy()
    if options.unknown == "exclude":
        q[UNK] = 0
    with np.errstate(divide="ignore"):
        q = np.exp(np.log(q) / options.temperature)
    q /= q.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        surprisal = -np.log(q)
        entropy = np.nansum(q * surprisal)
    if options.kind == "ancestral":
        return q
    if options.kind == "min_p":
        keep = q >= options.p * q.max() * (1 - 1e-6)
    else:
        score = np.abs(surprisal - entropy) if options.kind == "typical" else -q
        order = np.argsort(score, kind="stable")
        size = options.k
        if options.mass is not None:
            size = int(np.searchsorted(np.cumsum(q[order]), options.mass - 1e-6)) + 1
        keep = np.isin(np.arange(len(q)), order[:size])
    q[~keep] = 0
    return q / q.sum()


def following(model, text):
    place = min(len(text), len(model.table) - 1)
    return model.table[place, text[-1] if text else 0].double().exp().numpy()


def enumerate_documents(model, options):
    """Give every document with its log probability under the model and under the decoding."""
    waiting = [((), 0.0, 0.0)]
    while waiting:
        text, log_p, log_q = waiting.pop()
        p = following(model, text)
        q = truncate(p, options)
        for token in np.flatnonzero(q):
            item = (log_p + np.log(p[token]), log_q + np.log(q[token]))
            if token == 1:
                yield text, *item
            else:
                waiting.append(((*text, int(token)), *item))


def generate(model, values, count, batch=256, first=0, maximum_length=50):
    options = parse_decoding(values)
    kind = beam.BeamEngine if options.kind == "beam" else sampling.SamplingEngine
    return list(kind(model, options, 7, "test", maximum_length, batch).documents(first, count))


def assert_frequencies(observed, expected):
    """Compare counts with expected ones (chi-square); what is expected rarely goes together."""
    assert set(observed) <= set(expected)
    common = [key for key, value in expected.items() if value >= 5]
    seen, wanted = [observed[key] for key in common], [expected[key] for key in common]
    count = sum(observed.values())
    if sum(wanted) < count - 1e-6:
        seen.append(count - sum(seen))
        wanted.append(count - sum(wanted))
    if len(wanted) > 1:
        assert chisquare(seen, wanted).pvalue > 1e-3


@pytest.mark.parametrize("values", DECODINGS, ids=str)
def test_samples_follow_the_exact_distribution(values):
    model = TableModel.random(seed=3)
    exact = {text: rest for text, *rest in enumerate_documents(model, parse_decoding(values))}
    assert np.isclose(sum(np.exp(log_q) for _, log_q in exact.values()), 1)
    count = 10_000
    documents = generate(model, values, count, batch=2048)
    assert [document.doc_id for document in documents] == list(range(count))
    for document in documents[:2000]:
        found = document.log_prob, document.log_prob_decoding
        assert np.allclose(found, exact[tuple(document.tokens.tolist())], atol=1e-5)
    observed = Counter(tuple(document.tokens.tolist()) for document in documents)
    expected = {text: count * np.exp(log_q) for text, (_, log_q) in exact.items()}
    assert_frequencies(observed, expected)


@pytest.mark.parametrize("values", DECODINGS, ids=str)
@pytest.mark.parametrize("spread", [0.0, 0.5, 4.0])  # flat: full sort; peaked: the first candidates
def test_draw_equals_a_full_sort(values, spread):
    options = parse_decoding(values)
    generator = torch.Generator().manual_seed(1)
    logits = spread * torch.randn(40, 1500, generator=generator)
    logits[:, 0] = -torch.inf
    logits[::2] = (logits[::2] * 4).round() / 4  # ties
    uniform = torch.rand(40, dtype=torch.float64, generator=generator)
    found = sampling.draw_tokens(logits.clone(), uniform, options)
    for row in range(40):
        p = logits[row].double().softmax(-1).numpy()
        q = truncate(p, options)
        if options.kind in ("ancestral", "min_p"):
            order = np.arange(len(q))
        elif options.kind == "typical":
            whole = truncate(p, DecodingOptions("ancestral", options.temperature))
            with np.errstate(divide="ignore"):
                surprisal = -np.log(whole)
            entropy = np.nansum(whole * np.where(whole > 0, surprisal, 0))
            order = np.argsort(np.abs(surprisal - entropy).round(4), kind="stable")
        else:
            order = np.argsort(-q.astype(np.float32), kind="stable")
        cumulative = np.cumsum(q[order])
        token = int(found.token[row])
        place = int(np.flatnonzero(order == token)[0])
        # The number lies in the token's interval, up to the rounding of float32 sums; typical's
        # order and set also hang on the grid, where rounding moves up to four tokens of about
        # exp(-entropy) each.
        slack = min(1e-2, 4 * np.exp(-entropy)) if options.kind == "typical" else 1e-4
        assert cumulative[place] - q[token] - slack <= uniform[row] <= cumulative[place] + slack
        assert np.isclose(found.log_prob[row], np.log(p[token]), atol=1e-5)
        assert np.isclose(found.log_prob_decoding[row], np.log(q[token]), atol=slack)


@pytest.mark.parametrize("kind", ["nucleus", "typical", "top_k"])
def test_few_candidates_give_the_result_of_the_full_sort(kind, monkeypatch):
    generator = torch.Generator().manual_seed(2)
    logits = 2 * torch.randn(64, 3000, generator=generator)
    logits[::2] = logits[::2].round()  # many ties, also at the cut
    uniform = torch.rand(64, dtype=torch.float64, generator=generator)
    options = DecodingOptions(kind)  # type: ignore[arg-type]
    whole = sampling.draw_tokens(logits.clone(), uniform, options)

    def candidates(weight, score, limit, uniform, whole=None):  # what runs on a GPU
        return kernels._draw_ranked(weight, score, limit, uniform, (64, 512))

    monkeypatch.setattr(kernels, "draw_to_mass", candidates)
    few = sampling.draw_tokens(logits.clone(), uniform, options)
    if kind == "top_k":  # it has one path only
        ids = torch.argsort(logits, dim=1, descending=True, stable=True)[:, :50]
        p = logits.gather(1, ids).double().softmax(-1).cumsum(-1)
        place = torch.searchsorted(p, uniform[:, None])
        assert torch.equal(few.token, ids.gather(1, place)[:, 0])
    assert torch.equal(few.token, whole.token)
    assert torch.allclose(few.log_prob_decoding, whole.log_prob_decoding, atol=1e-9)


def test_unknown_stays_where_nothing_else_is_possible_and_rows_are_independent():
    logits = torch.full((2, 5), -torch.inf)
    logits[:, UNK] = 0
    logits[1, 4] = -3
    weights = kernels.unnormalized(logits, exclude_unknown=True).weight  # (2, 5)
    assert weights[0, UNK] > 0
    assert weights[1, UNK] == 0
    generator = torch.Generator().manual_seed(3)
    logits = 2 * torch.randn(64, 1000, generator=generator)
    uniform = torch.rand(64, dtype=torch.float64, generator=generator)
    for values in DECODINGS:
        options = parse_decoding(values)
        whole = sampling.draw_tokens(logits.clone(), uniform, options)
        for rows in (slice(0, 1), slice(5, 21), slice(32, 64)):
            part = sampling.draw_tokens(logits[rows].clone(), uniform[rows], options)
            for a, b in zip(part, whole, strict=True):
                assert torch.equal(a, b[rows])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["ancestral", "nucleus"])
def test_batch_shard_and_threads_do_not_change_a_text(family, kind):
    model, values = make(family, size=100, seed=4), {"kind": kind}
    expected = generate(model, values, 40, batch=32)
    assert same(expected, generate(model, values, 40, batch=1))
    assert same(expected, generate(model, values, 40, batch=64))
    parts = [generate(model, values, n, 16, first=f) for f, n in ((0, 7), (7, 20), (27, 13))]
    assert same(expected, [document for part in parts for document in part])
    with set_threads(2):
        assert same(expected[:20], generate(model, values, 20, batch=48))


@pytest.mark.parametrize("family", FAMILIES)
def test_log_prob_equals_rescoring(family):
    """Refilled slots must start from the empty prefix: a leak of state would show here."""
    model = make(family, size=20, seed=4)  # short documents, so that slots are refilled often
    documents = generate(model, {"kind": "ancestral"}, 100, batch=16)
    assert len({len(document.tokens) for document in documents}) > 5
    for document in documents:
        expected = rescored(model, document)
        assert np.isclose(document.log_prob, expected, rtol=1e-5, atol=1e-4)
        assert np.isclose(document.log_prob_decoding, document.log_prob, atol=1e-9)


@pytest.mark.parametrize("family", TINY)
def test_batch_size_changes_no_text_of_beams_and_log_prob_is_the_models(family):
    model, values = make(family, TINY[family], 24), {"kind": "beam", "size": 5, "temperature": 2.0}
    documents = generate(model, values, 40, 160, maximum_length=40)
    assert len({tuple(document.tokens) for document in documents}) > 3
    assert same(documents, generate(model, values, 40, 1, maximum_length=40))
    for document in documents:
        expected = rescored(model, document)
        assert np.isclose(document.log_prob, expected, rtol=1e-5, atol=1e-4)
        assert np.isnan(document.log_prob_decoding)


def test_maximum_length_cuts_and_documents_have_their_own_streams():
    model = make("lstm", size=300, seed=4)
    documents = generate(model, {"kind": "ancestral"}, 100, maximum_length=6)
    whole = generate(model, {"kind": "ancestral"}, 100, maximum_length=200)
    for cut, full in zip(documents, whole, strict=True):
        assert cut.finished == (len(full.tokens) < 6)
        assert np.array_equal(cut.tokens, full.tokens[:6])
    model = TableModel.random(seed=5)
    document = generate(model, {"kind": "ancestral"}, 9)[8]
    text = []
    for number in random_streams.stream(7, "test", 8).random(10):
        p = following(model, text).cumsum()
        text.append(int(np.searchsorted(p, number * p[-1])))
        if text[-1] == 1:
            break
    assert document.tokens.tolist() == text[:-1]


def test_wrong_options_too_long_documents_and_bad_counts_are_named():
    for values, message in (
        ({"kind": "nucleus", "k": 3}, "k: is not an option of nucleus"),
        ({"kind": "nucleus", "mass": 0}, "mass: is 0"),
        ({"kind": "top_k", "k": 0}, "k: is 0"),
        ({"kind": "ancestral", "temperature": 0}, "temperature: is 0"),
        ({"kind": "greedy"}, "decoding.kind: is 'greedy'"),
        ({"kind": "nucleus", "top_p": 0.9}, "decoding.top_p: unknown key"),
        ({}, "decoding"),
    ):
        check_refused(message, parse_decoding, values)
    with pytest.raises(errors.InputError, match="maximum length: is 513"):
        generate(make("transformer"), {"kind": "ancestral"}, 1, maximum_length=513)
    for make_one, words in (
        (lambda: trigram.Trigram.fit([], V), "has no document"),
        (lambda: trigram.Trigram(V, {"layers": 2}), r"architecture\.layers"),
        (lambda: trigram.Trigram(3_000_000), "vocabulary: has 3000000"),
    ):
        check_refused(words, make_one)


class ToyKind:
    """The most probable token, always: what a further decoding's module would have."""

    LOOKS = False

    @staticmethod
    def draw(weights, uniform, options):
        return kernels.Drawn(weights.weight.argmax(1), weights.weight.amax(1).double())

    @staticmethod
    def keep(contexts, options):
        return contexts.ranking(contexts.weight), contexts.positions() == 0


@pytest.fixture
def toy_row(monkeypatch):
    monkeypatch.setitem(sys.modules, "toy_kind", ToyKind)
    monkeypatch.setitem(ROWS, "toy", Decoding("Toy", "the first", "toy_kind"))


@pytest.mark.usefixtures("toy_row")
def test_a_row_and_a_module_make_a_decoding_of_both_engines(model):
    """The oracle is the argmax of each next-token distribution, walked by hand."""
    for one in (TableModel.random(seed=3), model):
        machine = generation.make_engine(one, DecodingOptions("toy"), 1, "test", 6, 12)
        for document in machine.documents(0, 3):
            state, token, total = one.initial_state(1, 6), torch.zeros(1, dtype=torch.int64), 0.0
            walked: list[int] = []
            while len(walked) < 6 and 1 not in walked:
                logits, state = one.step(token, state)
                token = logits.argmax(1)
                total += float(logits.double().log_softmax(1)[0, token])
                walked.append(int(token))
            assert document.tokens.tolist() == [held for held in walked if held != 1]
            assert document.log_prob == pytest.approx(total)
            assert document.log_prob_decoding == pytest.approx(0)


def test_an_unknown_kind_is_an_error_in_both_engines(model):
    """Not silently another decoding: neither where options are made, nor where tokens are drawn."""
    check_refused(r"decoding\.kind: is 'toy'; allowed are ancestral", DecodingOptions, "toy")
    stale = DecodingOptions("nucleus")
    object.__setattr__(stale, "kind", "toy")
    for one in (TableModel.random(seed=3), model):
        check_refused(
            r"decoding\.kind: is 'toy'", generation.make_engine, one, stale, 1, "test", 6, 12
        )
    with pytest.raises(errors.InputError, match=r"decoding\.kind: is 'toy'"):
        sampling.draw_tokens(torch.zeros(1, 5), torch.zeros(1, dtype=torch.float64), stale)


def test_a_row_has_title_words_and_module_and_enters_its_own_fingerprint_alone():
    """The fingerprint of generation names each decoding's module, and no table of rows."""
    for name, row in ROWS.items():
        assert Labels().decoding(name) == row.title
        assert row.words in (DecodingOptions.__doc__ or "")
        kind = sampling.load_kind(name)
        assert callable(kind.draw)
        assert callable(kind.keep)
        assert isinstance(kind.LOOKS, bool)
    files = {name: row.module.replace(".", "/") + ".py" for name, row in ROWS.items()}
    code = {name: fingerprint("scripts/generate.py", file) for name, file in files.items()}
    assert (code["ancestral"], len(set(code.values()))) == (code["beam"], len(code) - 1)
    assert fingerprint("scripts/generate.py") not in code.values()


Beams = tuple[tuple[tuple[int, ...], float], ...]


def distinct_draws(q, k):
    """Give the probability of every ordered draw of k tokens without replacement."""
    support = np.flatnonzero(q)
    result = {}
    for tokens in itertools.permutations(support.tolist(), min(k, len(support))):
        left, probability = 1.0, 1.0
        for token in tokens:
            probability *= q[token] / left
            left -= q[token]
        result[tokens] = probability
    return result


def enumerate_beam(model, k, temperature, maximum_length):
    """Give the probability of every document (and whether it is finished), by the definition."""
    result: dict[tuple[tuple[int, ...], bool], float] = defaultdict(float)
    # (live beams, number finished, best finished document) -> probability
    states: dict[tuple[Beams, int, tuple[tuple[int, ...], float] | None], float]
    states = {((((), 0.0),), 0, None): 1.0}
    for length in range(maximum_length + 1):
        later: dict[tuple, float] = defaultdict(float)
        for (beams, finished, best), probability in states.items():
            if not beams or length == maximum_length:
                text = best[0] if best else beams[0][0]
                result[text, best is not None] += probability
                continue
            options = []
            for text, log_p in beams:
                p = following(model, text)
                q = p ** (1 / temperature) / (p ** (1 / temperature)).sum()
                own = {w: ((*text, w), log_p + np.log(p[w])) for w in np.flatnonzero(p).tolist()}
                draws = distinct_draws(q, k).items()
                options.append([([own[w] for w in tokens], chance) for tokens, chance in draws])
            for choice in itertools.product(*options):
                chance = probability * np.prod([c for _, c in choice])
                drawn = sorted((x for xs, _ in choice for x in xs), key=lambda x: -x[1])
                kept = drawn[: k - finished]
                ended = [(text[:-1], log_p) for text, log_p in kept if text[-1] == EOS]
                live = tuple(x for x in kept if x[0][-1] != EOS)
                top = max([*ended, *([best] if best else [])], key=lambda x: x[1], default=None)
                later[live, finished + len(ended), top] += chance
        states = later
    assert np.isclose(sum(result.values()), 1)
    return result


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("length", [2, 10])
def test_documents_follow_the_enumerated_definition(k, temperature, length):
    model = TableModel.random(size=4, positions=3, seed=6)
    exact = enumerate_beam(model, k, temperature, length)
    values = {"kind": "beam", "size": k, "temperature": temperature}
    count = 8_000
    documents = generate(model, values, count, 4096, maximum_length=length)
    observed = Counter((tuple(d.tokens.tolist()), d.finished) for d in documents)
    assert_frequencies(observed, {key: count * value for key, value in exact.items()})


def test_draws_without_replacement_follow_the_enumeration():
    p = np.array([0.0, 0.4, 0.3, 0.05, 0.25])
    exact = distinct_draws(p, 3)
    logits = torch.tensor(np.log(np.where(p > 0, p, 1e-99))).float().repeat(20_000, 1)
    logits[:, 0] = -torch.inf
    generator = torch.Generator().manual_seed(0)
    numbers = torch.rand(20_000, 3, dtype=torch.float64, generator=generator)
    tokens, log_probs = kernels.draw_distinct(kernels.unnormalized(logits), numbers)
    assert np.allclose(log_probs, np.log(p[tokens]), atol=1e-6)  # what was drawn has kept its own
    observed = Counter(map(tuple, tokens.tolist()))
    assert_frequencies(observed, {key: 20_000 * value for key, value in exact.items()})


def test_draws_end_where_nothing_is_left_and_equals_are_equal_on_the_grid():
    logits = torch.full((1, 300), -torch.inf)
    logits[0, [7, 290]] = torch.tensor([0.0, -1.0])
    numbers = torch.full((1, 4), 0.5, dtype=torch.float64)
    tokens, log_probs = kernels.draw_distinct(kernels.unnormalized(logits), numbers)
    assert tokens[0, :2].tolist() == [7, 290]
    total = np.log1p(np.exp(-1))
    assert np.allclose(log_probs[0], [-total, -1 - total, -np.inf, -np.inf])
    parts = torch.tensor([0.1, 0.2, 0.7]).log().double()
    assert beam.on_grid(parts.sum()) == beam.on_grid(torch.tensor(0.014, dtype=torch.float64).log())


V = 30


def corpus(count=300, seed=0):
    generator = np.random.default_rng(seed)
    skewed = generator.dirichlet(np.full(V - 2, 0.15), size=V)
    documents = []
    for length in generator.geometric(0.1, count) - 1:
        tokens = [2]
        for _ in range(length):
            tokens.append(2 + generator.choice(V - 2, p=skewed[tokens[-1]]))
        documents.append(np.array(tokens[1:], dtype=np.int32))
    return documents


def batched(documents, size):
    for start in range(0, len(documents), size):
        yield documents[start : start + size]


def counted(documents):
    texts = [[0, 0, *document.tolist(), 1] for document in documents]
    trigrams = Counter(tuple(text[i - 2 : i + 1]) for text in texts for i in range(2, len(text)))
    bigrams: Counter = Counter()
    for gram, count in trigrams.items():
        bigrams[gram[:2]] += count
    return trigrams, bigrams


@pytest.fixture(scope="module")
def model():
    return trigram.Trigram.fit(batched(corpus(), 50), V)


@pytest.mark.parametrize("size", [1, 7, 300])
def test_counts_equal_a_dictionary(size):
    documents = corpus()
    fitted = trigram.Trigram.fit(batched(documents, size), V)
    trigrams, bigrams = counted(documents)
    owner = fitted.contexts.repeat_interleave(fitted.offsets.diff())
    held = zip(*(one.tolist() for one in (owner, fitted.successors, fitted.counts)), strict=True)
    assert {(c // V, c % V, w): n for c, w, n in held} == dict(trigrams)
    totals = zip(fitted.contexts.tolist(), fitted.context_counts.tolist(), strict=True)
    assert {(c // V, c % V): n for c, n in totals} == dict(bigrams)
    assert fitted.parameter_count() == len(trigrams)
    texts = ([documents], batched(documents, 3))
    whole, parts = (trigram.Trigram.fit(text, V).state_dict() for text in texts)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_scores_equal_the_counts(model):
    trigrams, bigrams = counted(corpus())
    documents = corpus(40, seed=0)[:20] + corpus(20, seed=9)  # seen ones, and others
    longest = max(map(len, documents))
    rows = [[0, *one.tolist(), *[1] * (longest + 1 - len(one))] for one in documents]
    tokens = torch.tensor(rows)
    dense = model(tokens)
    state = model.initial_state(len(documents), 100)
    infinite = 0
    for place in range(longest + 1):
        step, state = model.step(tokens[:, place], state)
        assert torch.equal(step, dense[:, place])
        for row, document in enumerate(documents):
            if place > len(document):
                continue
            context = tuple([0, *tokens[row, : place + 1].tolist()][-2:])
            count = trigrams[(*context, int(tokens[row, place + 1]))]
            expected = np.log(count / bigrams[context]) if count else -np.inf
            infinite += not count
            assert np.isclose(float(dense[row, place, tokens[row, place + 1]]), expected, atol=1e-6)
    assert infinite > 10


def test_looked_up_scores_are_of_distributions_that_sum_to_one_and_outlive_tensors(model):
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, V, (40, 25), generator=generator)  # most of it never seen
    for row, document in enumerate(corpus()[:30]):
        width = min(len(document), 24)
        tokens[row, :width] = torch.from_numpy(document[:width].astype(np.int64))
        tokens[row, width] = 1
    inputs = torch.nn.functional.pad(tokens[:, :-1], (1, 0), value=0)
    (found,) = model.target_log_probs(inputs, tokens, 7)
    expected = model(inputs).flatten(0, 1).gather(1, tokens.flatten()[:, None])[:, 0]
    assert 200 < int(found.isfinite().sum()) < found.numel() - 200
    torch.testing.assert_close(found.float(), expected)
    rows, seen = torch.arange(len(model.contexts)), torch.ones(len(model.contexts)).bool()
    total = model._dense(rows, seen).double().exp().sum(-1)
    assert torch.allclose(total, torch.ones_like(total), atol=1e-6)
    again = registry.find("trigram").from_tensors(model.config, model.state_dict())
    tokens = torch.tensor([[0, *corpus()[0].tolist(), 1]])
    assert torch.equal(again(tokens), model(tokens))


BEAMS = [{"kind": "beam", "size": 3}]
BEAMS += [{"kind": "beam", "size": 5, "temperature": 1.3, "unknown": "exclude"}]


@pytest.mark.parametrize("values", [*DECODINGS, *BEAMS], ids=str)
def test_sparse_texts_equal_dense_texts(model, values):
    options = parse_decoding(values)
    dense = beam.BeamEngine if options.kind == "beam" else sampling.SamplingEngine
    expected = list(dense(model, options, 1, "t", 60, 160).documents(5, 300))
    found = list(generation.make_engine(model, options, 1, "t", 60).documents(5, 300))
    assert len({len(document.tokens) for document in found}) > 5
    for one, other in zip(expected, found, strict=True):
        assert one.doc_id == other.doc_id
        assert np.array_equal(one.tokens, other.tokens)
        assert one.finished == other.finished
        assert np.isclose(one.log_prob, other.log_prob, atol=1e-4)
        assert np.isclose(one.log_prob_decoding, other.log_prob_decoding, atol=1e-4, equal_nan=True)


def test_sparse_engine_is_chosen_and_batches_do_not_matter(model, monkeypatch):
    monkeypatch.setattr(trigram.Trigram, "step", None)  # no distribution of all ids is made
    options = parse_decoding({"kind": "ancestral"})
    machine = ngram.SamplingEngine(model, options, 1, "t", 60, 16)
    small = list(machine.documents(0, 200))
    large = list(generation.make_engine(model, options, 1, "t", 60).documents(0, 200))
    assert same(small, large)
    tokens = torch.tensor([[0, *large[3].tokens.tolist(), 1]])
    scores = model(tokens)[:, :-1].gather(2, tokens[:, 1:, None])
    assert np.isclose(float(scores.sum()), large[3].log_prob)
