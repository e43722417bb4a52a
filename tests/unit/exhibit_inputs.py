"""What every table and figure of every paper is made of, as a run writes it, for tests of all."""

import numpy as np
import pandas as pd
import pyarrow as pa

from beyond_perplexity.report.inputs import INPUTS, as_rows, schema_of
from beyond_perplexity.schemas.corpora import TEXT_SAMPLES
from beyond_perplexity.semantics import differences
from beyond_perplexity.semantics.paired_scores import read_paired_scores
from beyond_perplexity.tendencies.definitions import EMBEDDING
from tests.unit import synthetic_tables, test_tables, test_two_sided
from tests.unit import test_contrastive_exhibits as contrastive
from tests.unit import test_report_importance as importance
from tests.unit import test_semantic_exhibits as semantic
from tests.unit.semantic_tables import sentences, write_scores
from tests.unit.test_report_importance import costs, posterior_rows

SOURCES = [*synthetic_tables.sources_of(["lstm", "trigram"], ["nucleus", "beam"]), "external/mine"]


def as_read(kind, rows):
    """Give a table the types that it has where it is read from its Parquet file."""
    held = rows.reindex(columns=schema_of(kind).names)
    read = as_rows(pa.Table.from_pandas(held, schema_of(kind), preserve_index=False))
    owner = INPUTS[kind].owner
    return read.assign(**{owner: rows[owner].tolist()}) if owner else read


def _importance():
    estimates = importance.estimates()
    estimates["log_likelihood"] = -estimates["n_tokens"] * np.log(estimates["value"])
    scored = {"model": "mine", "beside": "lstm", "n_tokens": 10, "n_unknown": 1, "n_words": 9}
    scored |= {"n_inside": 4, "log_likelihood": -48.0, "log_likelihood_inside": -30.0}
    scored |= {"log_likelihood_end": -3.0}
    drawn = {"method": "importance_sampling", "n_tokens": 10, "log_likelihood": -50.0}
    keys = ("model", "proposal", "temperature")
    settings = [{**dict(zip(keys, s, strict=True)), **drawn} for s in importance.settings()]
    both = (scored, *settings)
    instances = [{**row, "instance_id": place, "group": place} for row in both for place in (0, 1)]
    return {
        "estimates": estimates,
        "choices": estimates,
        "importance_curves": importance.curves(),
        "replicates": importance.replicates(),
        "importance_instances": pd.DataFrame(instances[2:]),
        "beside": pd.DataFrame(instances[:2]),
        "costs": pd.concat(
            costs(proposal).assign(model=model)
            for model, proposals in importance.PROPOSALS.items()
            for proposal in proposals
        ),
        "gaps": pd.DataFrame(test_two_sided.ROWS),
        "thought_sums": pd.DataFrame(
            {"model": "mine", "proposal": list(importance.OWN), "n_prompts": 40, "cut": 0.25}
            | {"no_thought": 90.0, "greedy": [80.0, np.inf], "greedy_of_others": 85.0}
        ),
        "posteriors": posterior_rows(model="mine", proposal="mine-peeking"),
        "latents": [
            {"model": "mine", "title": "b", "tokens": ["a"], "tree": "(S #0)"},
            {"model": "c", "title": "d", "tokens": ["a", "b"], "mentions": []},
        ],
    }


def _tendencies():
    measures = synthetic_tables.make_measures(SOURCES)
    texts = {"doc_id": [0, 1], "text": ["a b", ""], "n_tokens": [2, 0], "source": "lstm/beam"}
    embedded = synthetic_tables.MeasuredRows()
    for source in SOURCES:
        names = "mmd squared_mmd minimum_detectable_effect power_reached embedded cut"
        for measure in names.split():
            embedded.add(source, EMBEDDING, measure, 0.1, 0.01)
    return {
        **dict.fromkeys(("measures", "raw_measures", "resamples", "prompt_measures"), measures),
        "embedding_measures": embedded.table(),
        "curves": synthetic_tables.make_curves(SOURCES),
        "sample_size": synthetic_tables.make_sample_size(SOURCES),
        "sensitivity": synthetic_tables.make_sensitivity(),
        "prompt_sensitivity": synthetic_tables.make_sensitivity().assign(source="lstm/beam"),
        "words": pd.concat(
            synthetic_tables.make_words(source, ["in conclusion", "said"], [1.5, -0.7])
            for source in SOURCES
        ),
        "perplexity_differences": synthetic_tables.make_differences(["lstm", "trigram", "gru"]),
        "perplexity_parts": synthetic_tables.make_parts(["lstm", "trigram", "gru"]),
        "example_samples": pd.DataFrame(texts).reindex(columns=[*TEXT_SAMPLES.names, "source"]),
        "example_documents": pd.DataFrame({**texts, "source": "reference"}),
    }


def make_inputs(folder):
    """Return what the files of each kind in `INPUTS` hold; scores are written to a folder."""
    paired = read_paired_scores(write_scores(folder, semantic.SKILLS, sentences(45)), 50)
    found = differences.compare_semantics(paired)
    compared = {"semantic_differences": found.to_pandas()}
    compared["semantic_correlations"] = differences.correlate_measures(paired).to_pandas()
    own = contrastive.given()
    described = {**own.pop("models"), **semantic.MODELS}
    common = {"parameters": 7, "vocabulary": {"kind": "closed"}}
    described = {name: {**model, **common} for name, model in described.items()}
    for found in own["perplexities"].values():
        found["perplexity"]["token"] = 3.0
    own["perplexities"] |= test_tables.PERPLEXITIES
    training = pd.concat([synthetic_tables.make_training(["lstm"]), own.pop("training")])
    models = {"models": described, "training": training}
    given = {**_tendencies(), **_importance(), **own, **semantic.given(**compared), **models}
    tables = {kind: as_read(kind, given[kind]) for kind, row in INPUTS.items() if row.schema}
    return {**given, **tables}
