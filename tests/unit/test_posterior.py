"""Latents under the posterior: spans, means over particles, log p̂ word by word; their tables.

Needs no data: a model of hidden bits whose latents are enumerated. Oracles: enumeration, counts by
hand, NLTK's trees.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from nltk.tree import Tree
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import Instance, InstanceBatch
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.importance import posterior_latents as latents
from beyond_perplexity.importance.model_pair import Pair
from beyond_perplexity.importance.ways_to_draw import PosteriorOptions
from beyond_perplexity.models.latent import PADDING
from beyond_perplexity.models.latents.entitynlm_dynamic_entities import RADIX
from beyond_perplexity.report.importance_latents import latents_table, words_table
from beyond_perplexity.schemas.draws import POSTERIOR
from beyond_perplexity.storage.shards import ShardWriter
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.test_entitynlm import make_model, make_proposal
from tests.unit.toy_latent import STOP, ToyModel, ToyProposal

V = 6


class Bits(ToyModel):
    """Words with a hidden bit of 1 are mentions of one entity."""

    def readable(self, instance, latent):
        places = [place for place, bit in enumerate(latent.tolist()) if bit == 1]
        return {"mentions": [{"start": p, "end": p + 1, "entity": 0} for p in places]}


class State(NamedTuple):
    batch: InstanceBatch
    last: Tensor

    def select(self, rows: Tensor) -> State:
        return self._replace(last=self.last[rows])


class WalkedBits(Bits):
    """The same, word by word."""

    def start(self, batch: InstanceBatch, owner: Tensor) -> State:
        return State(batch, torch.full_like(owner, 2))

    def extend(self, state: State, time: int, choice: Tensor) -> tuple[Tensor, State]:
        token = state.batch.tokens[0, time]
        bits = self.bits.log_softmax(1)[state.last, choice]
        words = self.words.log_softmax(1)[choice, token]
        return bits + words + math.log(1 - STOP), state._replace(last=choice)

    def finish(self, state: State, time: int) -> Tensor:
        return torch.full_like(state.last, math.log(STOP), dtype=torch.float64)


class WalkedProposal(ToyProposal):
    """The same, word by word."""

    word_draws = 1

    def start(self, batch: InstanceBatch, owner: Tensor) -> State:
        return State(batch, owner)

    def propose(self, state: State, time: int, uniforms: Tensor, temperature: float):
        log_q = (self.logits[state.batch.tokens[0, time]] / temperature).log_softmax(0)  # (2,)
        choice = (uniforms[:, 0] >= log_q[0].exp()).long()
        return choice, log_q[choice], state


def make(model: type[ToyModel], proposal: type[ToyProposal]) -> Pair:
    torch.manual_seed(3)
    return Pair(model(V, {}).eval(), proposal(V, {}).eval(), 1, "bits/q")


def compared(pair: Pair, samples: int) -> list[dict[Any, Any]]:
    (columns,) = latents.compare_latents(pair, [instance()], PosteriorOptions(samples=samples))
    return pd.DataFrame(columns).to_dict("records")


def instance() -> Instance:
    tokens = np.array([3, 4, 5, 2, 5])
    return Instance(7, {"tokens": tokens, "bits": tokens % 2})


def enumerated(pair: Pair) -> tuple[Tensor, Tensor]:
    """Return all latents, (32, 5), and log p(x, z) of each."""
    every = torch.tensor(list(product((0, 1), repeat=5)))
    batch = InstanceBatch.of([instance()])
    return every, pair.model.log_joint(batch, torch.zeros(32, dtype=torch.int64), every).detach()


def expected(shares: np.ndarray, every: np.ndarray) -> list[float]:
    """Count by hand: words are spans; an entity is right that refers back to the same word."""
    gold = instance().arrays["bits"]
    found, matched, same = (np.zeros(len(every)) for _ in range(3))
    for row, bits in enumerate(every):
        last_gold = last = None
        for place in range(5):
            both = bits[place] and gold[place]
            matched[row] += both
            same[row] += both and last == last_gold
            last_gold = place if gold[place] else last_gold
            last = place if bits[place] else last
        found[row] = bits.sum()
    return [float(shares @ values) for values in (found, matched, same)]


@pytest.mark.parametrize("kinds", [(Bits, ToyProposal), (WalkedBits, WalkedProposal)])
def test_means_over_weighted_latents_are_those_of_the_posterior(kinds):
    pair = make(*kinds)
    every, log_p = enumerated(pair)
    found = compared(pair, 20_000)
    posterior = expected(log_p.softmax(0).numpy(), every.numpy())
    batch, owner = InstanceBatch.of([instance()]), torch.zeros(32, dtype=torch.int64)
    log_q = pair.proposal.log_prob(batch, owner, every, [1.0])[:, 0].detach()
    proposal = expected(log_q.exp().numpy(), every.numpy())
    for row, source, oracle in zip(
        found, ("posterior", "proposal"), (posterior, proposal), strict=True
    ):
        assert (row["source"], row["annotated"]) == (source, 3)
        for name, value in zip(("found", "matched", "same_entity"), oracle, strict=True):
            assert row[name] == pytest.approx(value, abs=0.06)
    way = "smc" if kinds[0] is WalkedBits else "importance_sampling"
    assert [row["method"] for row in found] == [way, "samples"]


def test_latents_of_an_impossible_text_are_none():
    pair = make(Bits, ToyProposal)
    with torch.no_grad():
        pair.model.words[:, 5] = -math.inf
    believed, drawn = compared(pair, 8)
    assert math.isnan(believed["found"])
    assert drawn["annotated"] == 3


def test_what_words_add_is_the_forward_probability_of_each():
    """Oracle: the forward algorithm, by summing over all latents of every prefix."""
    pair = make(WalkedBits, WalkedProposal)
    tokens, gold = instance().arrays["tokens"], instance().arrays["bits"]
    forward, logs = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64), [0.0]
    emit, move = pair.model.words.softmax(1), pair.model.bits.softmax(1)
    for token in tokens:
        held = (forward[:, None] * move).sum(0) * emit[:, token] * (1 - STOP)  # (2,)
        logs.append(math.log(held.sum().item()))
        forward = torch.tensor([*held.tolist(), 0.0], dtype=torch.float64)
    added = np.diff(logs)
    row, _ = compared(pair, 20_000)
    assert row["log_likelihood"] == pytest.approx(logs[-1] + math.log(STOP), abs=0.03)
    assert row["log_likelihood_inside"] == pytest.approx(added[gold == 1].sum(), abs=0.03)
    assert row["log_likelihood_end"] == pytest.approx(math.log(STOP), abs=1e-9)
    assert (row["n_words"], row["n_tokens"], row["n_inside"]) == (5, 6, 3)


def test_the_parts_add_up_to_the_estimate_of_the_run(tmp_path):
    pair = make(WalkedBits, WalkedProposal)
    (columns,) = latents.compare_latents(pair, [instance()], PosteriorOptions(samples=8))
    (row, other) = pd.DataFrame(columns).to_dict("records")
    outside = instance().arrays["bits"] == 0
    assert outside.sum() == row["n_words"] - row["n_inside"]
    assert row["log_likelihood_inside"] + row["log_likelihood_end"] > row["log_likelihood"]
    assert other["log_likelihood"] is None
    with ShardWriter(tmp_path / "a.parquet", POSTERIOR, {}) as writer:
        writer.write(columns)


def mentions(*spans: tuple[int, int, Any]) -> dict[str, Any]:
    return {"mentions": [dict(zip(("start", "end", "entity"), s, strict=True)) for s in spans]}


def test_entities_with_names_are_their_names_and_numbered_ones_what_they_refer_back_to():
    gold = mentions((0, 1, 0), (2, 4, 1), (5, 6, 0), (7, 8, 1))
    other = mentions((0, 1, 5), (2, 4, 5), (5, 6, 5), (7, 9, 2))
    counts = latents.count_spans(latents.entities_by_span(gold), latents.entities_by_span(other))
    # (0, 1) is new in both; (2, 4) is new in one alone; (5, 6) refers back to other mentions
    assert counts == latents.SpanCounts(4, 4, 3, 1)
    named = mentions((0, 1, "a"), (2, 4, "b"), (5, 6, "a"))
    wrong = mentions((0, 1, "a"), (2, 4, "a"), (5, 6, "a"))
    assert latents.count_spans(
        latents.entities_by_span(named), latents.entities_by_span(wrong)
    ) == latents.SpanCounts(3, 3, 3, 2)


TREES_OF = ["(S #0)", "#0", "(S (X #0 #1) #2)", "(# (NP #0 (# (C #1 #2))) (D #3 #4))"]


@pytest.mark.parametrize("tree", [*TREES_OF, "(X (X (X #0 #1) #2) #3)"])
def test_phrases_are_those_of_nltk(tree):
    whole = Tree.fromstring(tree if tree.startswith("(") else f"(S {tree})")
    words = len(whole.leaves())
    found = set()
    for position in whole.treepositions():
        if isinstance(whole[position], Tree):
            inside = [p for p in whole.treepositions("leaves") if p[: len(position)] == position]
            places = [whole.treepositions("leaves").index(p) for p in inside]
            found.add((places[0], places[-1] + 1))
    assert latents.tree_spans(tree) == {(a, b) for a, b in found if 1 < b - a < words}


# ---- tables ----


def posterior_rows(**changes: Any) -> pd.DataFrame:
    base = {"model": "bits", "proposal": "q", "source": "posterior", "structure": "mentions"}
    base |= {"method": "smc", "n_samples": 9, "effective": 4.0, "annotated": 4.0, "found": 2.0}
    base |= {"matched": 1.0, "same_entity": 0.5, "n_words": 10, "n_tokens": 11, "n_inside": 4}
    base |= {"log_likelihood": -50.0, "log_likelihood_inside": -30.0, "log_likelihood_end": -2.0}
    rows = [{**base, "instance_id": place, **changes} for place in range(2)]
    return pd.DataFrame(rows, columns=POSTERIOR.names)


def test_precision_recall_and_f1_are_of_the_sums():
    table = latents_table(posterior_rows(), Labels())
    (found,) = table.tidy.to_dict("records")
    assert found["precision"] == pytest.approx(1 / 2)
    assert found["recall"] == pytest.approx(1 / 4)
    assert found["f1"] == pytest.approx(2 * (1 / 2 * 1 / 4) / (1 / 2 + 1 / 4))
    assert found["entity_accuracy"] == pytest.approx(1 / 2)
    trees = latents_table(posterior_rows(structure="trees"), Labels())
    assert trees.rows[0][-1] == "–"
    unannotated = posterior_rows()
    unannotated.loc[1, ["annotated", "found", "matched", "same_entity"]] = np.nan
    assert latents_table(unannotated, Labels()).tidy["n_instances"][0] == 1
    with pytest.raises(InputError, match="no latents to compare"):
        latents_table(posterior_rows().iloc[:0], Labels())


def test_words_of_mentions_and_others_and_ends_stand_apart():
    held = {"model": "bits", "beside": "lstm", "instance_id": [0, 1, 2], "n_words": 10}
    held |= {"n_tokens": 10, "n_inside": 4, "log_likelihood": -48.0}  # the end does not count there
    held |= {"log_likelihood_inside": -30.0, "log_likelihood_end": -3.0}
    scores = pd.DataFrame(held)
    table = words_table(posterior_rows(), scores, Labels())
    latent, plain = table.tidy.to_dict("records")
    assert latent["perplexity_inside"] == pytest.approx(math.exp(30 / 4))
    assert latent["perplexity_outside"] == pytest.approx(math.exp(18 / 6))
    assert latent["perplexity_words"] == pytest.approx(math.exp(48 / 10))
    assert latent["n_end"] == plain["n_end"] == 2  # an instance without a run is left out
    assert plain["perplexity_outside"] == pytest.approx(math.exp(18 / 6))
    assert table.rows[1][-1] == "3.00"
    trees = words_table(posterior_rows(n_inside=None, log_likelihood_inside=None), None, Labels())
    assert trees.rows[0][3] == "–"


WORDS = [f"w{number}" for number in range(6)]


def document(length: int, mentions: list[tuple[int, int]], number: int = 7) -> Instance:
    """Make a document whose mentions, (place, entity), are one word long."""
    codes = np.zeros(length, np.int64)
    for place, entity in mentions:
        codes[place] = 1 + RADIX * entity
    return Instance(number, {"tokens": 3 + np.arange(length) % 6, "latents": codes})


def shown(instance: Instance) -> list[dict]:
    pair = Pair(make_model(), make_proposal(), 1, "m/q")
    vocabulary = ClosedVocabulary.build([WORDS], 1, None)
    assert vocabulary.size == pair.model.vocabulary_size
    return latents.describe(pair, "m", [document(3, []), instance], vocabulary)


def test_of_a_long_document_the_part_with_most_mentions_is_shown():
    places = [(5, 0), (130, 1), (133, 0), (139, 1), (150, 1)]
    annotation, most_probable = shown(document(400, places))
    assert len(annotation["tokens"]) == latents.MOST_WORDS
    _, _, first, _, last, _, whole = annotation["title"].split()  # ..., words 1 to 2 of 3
    start = int(first) - 1
    assert (int(last) - start, int(whole)) == (latents.MOST_WORDS, 400)
    assert annotation["tokens"] == [WORDS[(start + i) % 6] for i in range(latents.MOST_WORDS)]
    found = [start + mention["start"] for mention in annotation["mentions"]]
    assert found == [130, 133, 139, 150]
    assert all(0 <= m["start"] < m["end"] <= latents.MOST_WORDS for m in most_probable["mentions"])


def test_a_short_document_is_shown_whole_and_a_shorter_one_not():
    annotation, _ = shown(document(9, [(2, 0), (4, 0)]))
    assert annotation["title"] == "annotation"
    assert [mention["start"] for mention in annotation["mentions"]] == [2, 4]
    assert shown(document(4, [])) == []


class Finding:
    """A proposal whose most probable latent has the mentions of one document, of others none."""

    def __init__(self, number: int) -> None:
        self.number = number

    def beam(self, batch, size):
        codes = pair_of(self).model.annotated(batch)  # (1, W)
        if batch.ids.tolist() != [self.number]:
            codes = torch.where(codes == PADDING, codes, 0)
        return torch.stack([codes, torch.full_like(codes, PADDING)], 1)  # (1, 2, W)


def pair_of(proposal) -> Pair:
    return Pair(make_model(), proposal, 1, "m/q")


def test_the_document_is_shown_in_which_the_proposal_finds_most():
    """The others have more mentions, which this proposal does not find."""
    held = [document(9, [(k, 0) for k in range(9 - number)], number) for number in range(3)]
    vocabulary = ClosedVocabulary.build([WORDS], 1, None)
    annotation, most_probable = latents.describe(pair_of(Finding(2)), "m", held, vocabulary)
    assert annotation["instance_id"] == 2
    assert [m["start"] for m in most_probable["mentions"]] == [*range(7)]
    nothing = latents.describe(pair_of(Finding(-1)), "m", held, vocabulary)
    assert nothing[0]["instance_id"] == 0  # the one with most to see
