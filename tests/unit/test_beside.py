"""Models without latent variables on the instances of latent ones, and choosing an estimate.

Needs no data: a model of hidden bits and a small LSTM, tables written here. Oracles: the scores
that `models.likelihoods` gives in batches, sums by hand, closed forms of paired differences.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import Instance, InstanceBatch, document_of
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.importance.scores_beside import group_instances, score_beside
from beyond_perplexity.models.likelihoods import score_encoded
from beyond_perplexity.models.recurrent import LSTM
from beyond_perplexity.report.importance import sampling_table
from beyond_perplexity.report.importance_choice import (
    BY_NOTHING,
    BY_VALIDATION,
    choice_table,
    choose_estimates,
)
from beyond_perplexity.report.importance_latents import beside_table
from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.schemas.estimates import ESTIMATES, IMPORTANCE_DIAGNOSTICS
from beyond_perplexity.vocabulary import BOS
from tests.unit.toy_latent import ToyModel

V = 11
TEXTS = [np.array(text) for text in ([4, 5, 6, 10, 3], [7], [9, 9, 3, 4, 5, 6, 7, 8])]


class Mentioning(ToyModel):
    """Words with a hidden bit of 1 are mentions; the end counts or not."""

    end = 1

    def n_tokens(self, batch: InstanceBatch) -> Tensor:
        return batch.lengths["tokens"] + self.end

    def readable(self, instance, latent):
        places = [place for place, bit in enumerate(latent.tolist()) if bit == 1]
        return {"mentions": [{"start": p, "end": p + 1, "entity": 0} for p in places]}


class Parsing(ToyModel):
    """Its latents are no mentions."""

    def readable(self, instance, latent):
        return {"tree": "(S #0)"}


def instances() -> list[Instance]:
    return [Instance(n, {"tokens": t, "bits": t % 2}) for n, t in enumerate(TEXTS, 7)]


@pytest.fixture(scope="module")
def lstm() -> LSTM:
    torch.manual_seed(1)
    return LSTM(V, {"embedding_size": 8, "hidden_size": 8}).eval()


@pytest.mark.parametrize("end", [0, 1])
def test_scores_are_of_the_words_of_the_end_and_of_mentions(lstm, end):
    latent = Mentioning(V, {})
    latent.end = end
    rows = list(score_beside(latent, lstm, instances()))
    whole = list(score_encoded(lstm, TEXTS))
    for row, text, score in zip(rows, TEXTS, whole, strict=True):
        without = 0.0 if end else row["log_likelihood_end"]
        assert row["log_likelihood"] + without == pytest.approx(score.log_prob, abs=1e-5)
        assert row["n_tokens"] == len(text) + end
        assert (row["n_words"], row["n_inside"]) == (len(text), int((text % 2).sum()))
        ids = torch.tensor([[BOS, *text]])
        logits = lstm(ids).log_softmax(2)[0, :-1].double()  # (T, V)
        by_word = logits[torch.arange(len(text)), torch.tensor(text)].detach().numpy()
        assert row["log_likelihood_inside"] == pytest.approx(by_word[text % 2 == 1].sum(), abs=1e-5)


def test_a_score_does_not_depend_on_the_other_instances(lstm):
    latent = Mentioning(V, {})
    together = list(score_beside(latent, lstm, instances()))
    alone = [row for one in instances() for row in score_beside(latent, lstm, [one])]
    assert together == alone


def test_trees_have_no_words_inside_mentions_and_classes_are_unknown(lstm):
    latent = Parsing(V + 2, {})
    odd = Instance(1, {"tokens": np.array([4, V, V + 1]), "bits": np.array([0, 1, 0])})
    plain = Instance(1, {"tokens": np.array([4, 2, 2]), "bits": np.array([0, 1, 0])})
    (found,), (expected,) = (list(score_beside(latent, lstm, [one])) for one in (odd, plain))
    assert found["n_inside"] is None
    assert found["log_likelihood_inside"] is None
    assert found["log_likelihood"] == expected["log_likelihood"]


def test_an_odd_count_of_tokens_is_an_error(lstm):
    latent = Mentioning(V, {})
    latent.end = 2
    with pytest.raises(InputError, match="instance 7: the latent model counts 7 tokens of 5"):
        list(score_beside(latent, lstm, instances()))


def test_sentences_are_of_their_document_and_documents_of_their_page(tmp_path):
    assert document_of(3 * 65_536 + 2, "sentence") == 3
    assert document_of(3, "document") == 3
    path = str(tmp_path / "documents.parquet")
    titles = {3: "Ant", 4: "Ant", 5: "", 6: "", 7: "Bee"}
    columns = {"doc_id": list(titles), "title": list(titles.values()), "split": ["test"] * 5}
    columns |= {"text": ["a"] * 5, "n_tokens": [1] * 5}
    pq.write_table(pa.table({name: columns[name] for name in DOCUMENTS.names}, DOCUMENTS), path)
    pages = group_instances("entitynlm", titles, path, "page")
    assert pages[3] == pages[4]
    assert len(set(pages.values())) == 4  # a document without a title is a page of its own
    assert len(set(group_instances("entitynlm", titles, path, "document").values())) == 5
    sentences = [3 * 65_536, 3 * 65_536 + 1, 4 * 65_536, 7 * 65_536]
    documents = group_instances("rnng", sentences, path, "document")
    assert documents[sentences[0]] == documents[sentences[1]] != documents[sentences[2]]
    assert len(set(group_instances("rnng", sentences, path, "page").values())) == 2


# ---- tables ----

BASE = {"aggregation": "instance", "measure": "perplexity", "bound": "stochastic"}
BASE |= {"ess_median": 5.0}
SIZES = {"n_instances": 3, "n_tokens": 60, "n_samples": 100, "t_definition": "words"}


def estimates(values: dict[tuple, float], model: str = "bits") -> pd.DataFrame:
    rows = [
        {"model": model, "proposal": p, "method": m, "temperature": t, "value": v, **BASE, **SIZES}
        for (p, m, t), v in values.items()
    ]
    return pd.DataFrame(rows, columns=ESTIMATES.names)


SAMPLING, SMC = "importance_sampling", "smc"
TEST = {
    ("q", SAMPLING, 0.5): 90.0,
    ("q", SAMPLING, 1.0): 95.0,
    ("q", SMC, 1.0): 93.0,
    ("q", "mixture", None): 97.0,
}


def test_without_validation_no_temperature_is_chosen():
    (row,) = choose_estimates(estimates(TEST), None).to_dict("records")
    assert (row["method"], row["value"]) == (SMC, 93.0)
    assert row["chosen_by"] == "itself, the lowest of 2"
    alone = {key: value for key, value in TEST.items() if key[1] != "mixture"}
    (row,) = choose_estimates(estimates(alone), None).to_dict("records")
    assert row["chosen_by"] == BY_NOTHING


def test_validation_chooses_and_the_test_split_does_not():
    valid = estimates({**TEST, ("q", SAMPLING, 1.0): 80.0, ("q", SAMPLING, 0.5): 85.0})
    (row,) = choose_estimates(estimates(TEST), valid).to_dict("records")
    assert (row["temperature"], row["value"], row["chosen_by"]) == (1.0, 95.0, BY_VALIDATION)
    other = estimates({("r", SMC, 1.0): 1.0})
    with pytest.raises(InputError, match="bits: no estimate has a finite bound"):
        choose_estimates(estimates(TEST), other)


def test_what_needs_no_choice_comes_first_then_the_least_strict_bound():
    table = estimates(TEST)
    beams = [(1, 120.0), (10, 110.0)]
    strict = [
        {**BASE, **SIZES, "model": "bits", "proposal": "q", "method": "beam", "beam_size": size}
        | {"bound": "strict", "value": value}
        for size, value in beams
    ]
    whole = pd.concat([table, pd.DataFrame(strict, columns=ESTIMATES.names)], ignore_index=True)
    shown = choice_table(whole, estimates(TEST), Labels())
    parts = ["Needs no choice", "", "Speaks for the model", "Least strict bound"]
    assert [row[0] for row in shown.rows] == parts
    values = [row[6] for row in shown.rows]
    assert values == ["93.0", "97.0", "90.0", "110.0"]
    assert shown.rows[2][9] == BY_VALIDATION
    assert "k = 10" in shown.rows[3][3]
    assert list(shown.tidy["part"]) == ["no choice", "no choice", "speaks", "strict"]


def paired(groups: int, gap: float, spread: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Instances of 10 tokens whose difference is `gap` ± `spread`, in turn."""
    scores, own = [], []
    for place in range(groups):
        less = gap + (spread if place % 2 else -spread)
        common = {"model": "bits", "instance_id": place, "n_tokens": 10}
        scores.append(
            {**common, "beside": "lstm", "group": place, "log_likelihood": -50.0, "n_unknown": 2}
        )
        method = {"proposal": "q", "method": SMC, "temperature": 1.0}
        own.append({**common, **method, "log_likelihood": -50.0 - 10 * less})
    return pd.DataFrame(own, columns=IMPORTANCE_DIAGNOSTICS.names), pd.DataFrame(scores)


def test_the_difference_is_paired_and_its_interval_that_of_students_t():
    """Oracle: the mean of equal groups and its interval in closed form."""
    own, scores = paired(40, -0.2, 0.1)
    chosen = estimates({("q", SMC, 1.0): 93.0})
    (row,) = beside_table(chosen, own, scores, None, Labels()).tidy.to_dict("records")
    assert row["difference"] == pytest.approx(-0.2)
    error = 0.1 * math.sqrt(40 / 39) / math.sqrt(40)
    assert row["standard_error"] == pytest.approx(error)
    assert row["high"] == pytest.approx(-0.2 + 2.0227 * error, rel=1e-4)  # t of 39 at .975
    assert row["perplexity_beside"] == pytest.approx(math.exp(5.0))
    assert row["perplexity"] == pytest.approx(math.exp(4.8))
    few = beside_table(chosen, *paired(10, -0.2, 0.1), None, Labels())
    assert few.rows[0][8] == "–"


def test_unknown_words_are_charged_on_both_sides():
    """Oracle: 2 of 10 words are unknown and may be any of 7 types."""
    own, scores = paired(40, -0.2, 0.1)
    chosen = estimates({("q", SMC, 1.0): 93.0}).assign(unknown_types=7)
    measure = {"measure": "unknown_penalized_perplexity", "value": 130.0}
    whole = pd.concat([chosen, chosen.assign(**measure)], ignore_index=True)
    (row,) = beside_table(whole, own, scores, None, Labels()).tidy.to_dict("records")
    assert row["penalized"] == 130.0
    assert row["penalized_beside"] == pytest.approx(math.exp(5.0 + 0.2 * math.log(7)))


def test_other_instances_or_other_tokens_are_an_error():
    own, scores = paired(5, 0.0, 0.1)
    chosen = estimates({("q", SMC, 1.0): 93.0})
    with pytest.raises(InputError, match=r"bits and lstm are of different instances \(4 and 5\)"):
        beside_table(chosen, own.iloc[1:], scores, None, Labels())
    own.loc[0, "n_tokens"] = 11
    with pytest.raises(InputError, match="count different tokens"):
        beside_table(chosen, own, scores, None, Labels())


def test_table_1_ends_with_the_models_without_latent_variables():
    _, scores = paired(4, 0.0, 0.1)
    table = sampling_table(estimates(TEST), scores, Labels(names={"lstm": "My LSTM"}))
    assert list(table.rows[-1][1:]) == ["My LSTM", f"{math.exp(5.0):,.1f}"]
    assert "same instances" in table.rows[-1][0]
