"""The columns of every kind of Parquet file: the one home of what a stage hands to the next."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


SCHEMAS: dict[str, pa.Schema] = {
    "documents": _schema(
        doc_id=pa.int64(),
        split=pa.string(),
        title=pa.string(),
        text=pa.string(),
        n_tokens=pa.int32(),
    ),
    "mentions": _schema(
        doc_id=pa.int64(),
        start=pa.int32(),
        end=pa.int32(),
        entity=pa.string(),
        source=pa.string(),
    ),
    "knowledge_graph": _schema(subject=pa.string(), relation=pa.string(), object=pa.string()),
    "aliases": _schema(entity=pa.string(), alias=pa.string()),
    # Constituency trees in Penn brackets, one a sentence, on one line; see corpus/penn.py.
    "trees": _schema(doc_id=pa.int64(), sentence=pa.int32(), tree=pa.string()),
    "samples": _schema(
        doc_id=pa.int64(),
        text=pa.string(),
        n_tokens=pa.int32(),
        log_prob=pa.float64(),
        log_prob_decoding=pa.float64(),
        finished=pa.bool_(),
    ),
    # One row per (statistic, key) with its number of occurrences; see tendencies/statistics.py.
    "statistics": _schema(
        statistic=pa.string(),
        type=pa.string(),
        length=pa.int32(),
        value=pa.int32(),
        count=pa.int64(),
    ),
    "training": _schema(
        step=pa.int64(),
        epoch=pa.float64(),
        split=pa.string(),
        loss=pa.float64(),
        perplexity=pa.float64(),
        learning_rate=pa.float64(),
        seconds=pa.float64(),
    ),
    # One row per measured tendency of one body of text against a reference.
    "tendencies": _schema(
        source=pa.string(),
        tendency=pa.string(),
        measure=pa.string(),
        value=pa.float64(),
        low=pa.float64(),
        high=pa.float64(),
        p_value=pa.float64(),
        n_reference=pa.int64(),
        n_samples=pa.int64(),
    ),
    # One row per measure of random subsets of n documents; see tendencies/sample_size.py.
    "sample_size": _schema(
        source=pa.string(),
        tendency=pa.string(),
        measure=pa.string(),
        n=pa.int64(),
        subsets=pa.int64(),
        value=pa.float64(),
        low=pa.float64(),
        high=pa.float64(),
        p_value=pa.float64(),
        p_low=pa.float64(),
        p_high=pa.float64(),
    ),
    # One row per test and number of documents; see tendencies/sensitivity.py.
    "sensitivity": _schema(
        source=pa.string(),
        tendency=pa.string(),
        measure=pa.string(),
        unit=pa.string(),
        n=pa.int64(),
        shift=pa.float64(),
        relative=pa.float64(),
        level=pa.float64(),
        power=pa.float64(),
    ),
    # What the figures draw, tidy: points of a named curve with a band and the documents behind.
    "curves": _schema(
        source=pa.string(),
        curve=pa.string(),
        x=pa.float64(),
        y=pa.float64(),
        low=pa.float64(),
        high=pa.float64(),
        n=pa.int64(),
    ),
    # One row per importance sample of an instance. T of the instance is n_tokens; the footer's key
    # "weights" says what it counts. Files of others may have the columns of `temperature_columns`.
    "log_weights": _schema(
        instance_id=pa.int64(),
        sample_id=pa.int64(),
        n_tokens=pa.int32(),
        n_unknown=pa.int32(),
        log_p=pa.float64(),
        log_q=pa.float64(),
        latent_hash=pa.int64(),
    ),
    # log q of the same samples at each temperature that some are drawn at: the columns of
    # `temperature_columns` come on top.
    "log_q": _schema(
        instance_id=pa.int64(),
        sample_id=pa.int64(),
        temperature=pa.float64(),
        latent_hash=pa.int64(),
    ),
    # The latents that a beam search of each size under the proposal ends with.
    "beams": _schema(
        instance_id=pa.int64(),
        beam_size=pa.int32(),
        rank=pa.int32(),
        n_tokens=pa.int32(),
        n_unknown=pa.int32(),
        log_p=pa.float64(),
        log_q=pa.float64(),
        latent_hash=pa.int64(),
    ),
    # One row per run of a particle filter on an instance: log p̂, and the smallest effective
    # sample size on the way.
    "smc": _schema(
        instance_id=pa.int64(),
        run=pa.int32(),
        n_particles=pa.int32(),
        n_tokens=pa.int32(),
        n_unknown=pa.int32(),
        log_likelihood=pa.float64(),
        ess_min=pa.float64(),
    ),
    # One row per estimated perplexity; see importance/tables.py for what each column means.
    "estimates": _schema(
        model=pa.string(),
        proposal=pa.string(),
        temperature=pa.float64(),
        method=pa.string(),
        aggregation=pa.string(),
        pairing=pa.string(),
        beam_size=pa.int32(),
        measure=pa.string(),
        value=pa.float64(),
        log_likelihood=pa.float64(),
        bound=pa.string(),
        standard_error=pa.float64(),
        standard_error_samples=pa.float64(),
        standard_error_instances=pa.float64(),
        low=pa.float64(),
        high=pa.float64(),
        standard_deviation=pa.float64(),
        replicates=pa.int64(),
        n_samples=pa.int64(),
        n_instances=pa.int64(),
        n_infinite=pa.int64(),
        n_tokens=pa.int64(),
        t_definition=pa.string(),
        n_unknown=pa.int64(),
        unknown_types=pa.int64(),
        ess_median=pa.float64(),
        ess_min=pa.float64(),
        largest_weight_median=pa.float64(),
        largest_weight_max=pa.float64(),
        unique_share=pa.float64(),
        k_hat_median=pa.float64(),
        k_hat_max=pa.float64(),
        k_hat_threshold=pa.float64(),
        k_hat_above=pa.int64(),
        k_hat_undefined=pa.int64(),
        note=pa.string(),
    ),
    # Perplexity against the number of samples, over random subsets without replacement.
    "importance_curves": _schema(
        model=pa.string(),
        proposal=pa.string(),
        temperature=pa.float64(),
        aggregation=pa.string(),
        n_samples=pa.int64(),
        mean=pa.float64(),
        low=pa.float64(),
        high=pa.float64(),
        replicates=pa.int64(),
        bound=pa.string(),
        n_instances=pa.int64(),
        n_tokens=pa.int64(),
        t_definition=pa.string(),
    ),
    # Perplexities of disjoint blocks of samples: independent replicates of one estimate.
    "importance_replicates": _schema(
        model=pa.string(),
        proposal=pa.string(),
        temperature=pa.float64(),
        aggregation=pa.string(),
        n_samples=pa.int64(),
        replicate=pa.int64(),
        value=pa.float64(),
        bound=pa.string(),
        n_instances=pa.int64(),
        n_tokens=pa.int64(),
        t_definition=pa.string(),
    ),
    # One row per instance and estimator: log p̂ of the instance and how far to trust it.
    "importance_diagnostics": _schema(
        model=pa.string(),
        proposal=pa.string(),
        temperature=pa.float64(),
        method=pa.string(),
        instance_id=pa.int64(),
        n_samples=pa.int64(),
        n_tokens=pa.int64(),
        n_unknown=pa.int64(),
        log_likelihood=pa.float64(),
        log_likelihood_jackknife=pa.float64(),
        standard_error=pa.float64(),
        standard_error_samples=pa.float64(),
        ess=pa.float64(),
        largest_weight=pa.float64(),
        unique_share=pa.float64(),
        k_hat=pa.float64(),
        k_hat_threshold=pa.float64(),
        tail=pa.string(),
    ),
}


def temperature_column(temperature: float) -> str:
    """Name the column of log q at a temperature, e.g. ``log_q_tau_0.5``."""
    return f"log_q_tau_{float(temperature)}"


def temperature_columns(temperatures: Iterable[float]) -> pa.Schema:
    """Return the columns that a file of log weights has on top of its schema, one a temperature."""
    return pa.schema([pa.field(temperature_column(value), pa.float64()) for value in temperatures])


def complete_schema(kind: str, extra: pa.Schema | None = None) -> pa.Schema:
    """Return the schema of a file of some kind, a key of `SCHEMAS`, with columns on top."""
    return SCHEMAS[kind] if extra is None else pa.schema([*SCHEMAS[kind], *extra])
