"""Unknown words under KGLM: what the penalty costs goes through draws, files and estimates.

Oracle: the sum over all latents of the plain implementation, in which each of U types has a U-th of
what generates an unknown word.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import pytest
import torch

from beyond_perplexity.importance.draw_files import WeightLabels
from beyond_perplexity.importance.model_pair import Pair
from beyond_perplexity.importance.particle_runs import run_smc
from beyond_perplexity.importance.reduction import estimates_table, reduce_files
from beyond_perplexity.importance.sample_draws import search, weigh
from beyond_perplexity.importance.ways_to_draw import (
    BeamOptions,
    ReductionOptions,
    SMCOptions,
    WeightOptions,
)
from beyond_perplexity.models.latents.kglm_optimal import OptimalLinks
from beyond_perplexity.models.latents.kglm_tagger import KGLMTagger
from beyond_perplexity.schemas.columns import with_columns
from beyond_perplexity.schemas.draws import BEAMS, LOG_WEIGHTS, SMC, penalized_columns
from beyond_perplexity.storage.shards import write_shard
from tests.unit import kglm_reference as reference
from tests.unit.test_kglm import instance_of, make, plain_joint

DOCUMENTS = {3: [4, 300], 8: [301, 3], 9: [302, 300]}
TYPES = 40


def draw_files(folder, pair, samples):
    """Write draws of every kind of the documents; return the flags that name them."""
    data = [instance_of(number, words) for number, words in DOCUMENTS.items()]
    smc = SMCOptions(particles=20, runs=4)
    drawn = {
        "weights": (LOG_WEIGHTS, weigh(pair, data, WeightOptions(1.0), range(samples)), 1.0),
        "beams": (BEAMS, search(pair, data, BeamOptions((500,))), None),
        "smc": (SMC, run_smc(pair, data, smc, range(4)), 1.0),
    }
    paths = {}
    for kind, (schema, parts, temperature) in drawn.items():
        held = list(parts)
        columns = {name: np.concatenate([part[name] for part in held]) for name in held[0]}
        labels = WeightLabels("kglm", "q", temperature, "words", TYPES).in_record({})
        paths[kind] = [folder / f"{kind}.parquet"]
        write_shard(
            paths[kind][0], with_columns(schema, penalized_columns(schema)), columns, labels
        )
    return argparse.Namespace(**paths, log_q=[], posterior=[], bidirectional=[], seed=1)


@torch.no_grad()
def exact(model, unknown_types):
    """Return Σ_n log p(x_n) by the plain implementation."""
    total = 0.0
    for words in DOCUMENTS.values():
        every = [
            plain_joint(model, words, z, unknown_types=unknown_types)
            for z in reference.enumerate_codes(model, len(words))
        ]
        total += float(np.logaddexp.reduce(every))
    return total


@pytest.mark.parametrize("kind", [KGLMTagger, OptimalLinks])
def test_every_estimate_of_the_penalized_perplexity_is_of_the_penalized_model(kind, tmp_path):
    model = make(seed=2).double()
    proposal = make(KGLMTagger, seed=3).double() if kind is KGLMTagger else OptimalLinks(model)
    pair = Pair(model, proposal, 5, "kglm/q", TYPES)
    given = draw_files(tmp_path, pair, 3000)
    options = ReductionOptions(subsets=2, bootstrap=20, replicate_samples=10)
    table = estimates_table(reduce_files(given, WeightLabels(), options)).to_pylist()
    tokens = sum(len(words) + 1 for words in DOCUMENTS.values())
    for measure, types in (("perplexity", 1), ("unknown_penalized_perplexity", TYPES)):
        truth = math.exp(-exact(model, types) / tokens)
        rows = [r for r in table if r["measure"] == measure and r["aggregation"] == "instance"]
        found = {row["method"]: row["value"] for row in rows if row["value"] is not None}
        assert found["beam"] == pytest.approx(truth)  # of all latents
        assert found["importance_sampling"] == pytest.approx(truth, rel=0.05)
        assert found["smc"] == pytest.approx(truth, rel=0.1)
    values = {r["measure"]: r["value"] for r in table if r["method"] == "beam"}
    ratio = values["unknown_penalized_perplexity"] / values["perplexity"]
    assert ratio < TYPES ** (4 / tokens) - 1e-3, "four unknown words, some of them copied"
    ess = {r["measure"]: r["ess_min"] for r in table if r["method"] == "smc"}
    for measure, one in (("perplexity", pair), ("unknown_penalized_perplexity", pair.penalized())):
        data = [instance_of(number, words) for number, words in DOCUMENTS.items()]
        runs = list(run_smc(one, data, SMCOptions(particles=20, runs=4), range(4)))
        assert ess[measure] == min(columns["ess_min"].min() for columns in runs)
    assert len(set(ess.values())) == 2


def test_a_pair_without_a_count_of_unknown_types_has_no_penalty():
    model = make().double()
    pair = Pair(model, OptimalLinks(model), 5, "kglm/q")
    assert pair.penalized() is None
    data = [instance_of(1, [3, 300])]
    (columns,) = weigh(pair, data, WeightOptions(1.0), range(4))
    assert set(columns) == set(LOG_WEIGHTS.names)
    (columns,) = run_smc(pair, data, SMCOptions(4), range(2))
    assert set(columns) == set(SMC.names)
