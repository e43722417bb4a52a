"""The kinds of files that tables and figures are made of, and reading them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
import pyarrow as pa

from beyond_perplexity.errors import InputError
from beyond_perplexity.figures import Exhibit
from beyond_perplexity.schemas import schema_name
from beyond_perplexity.storage.inputs import read_json
from beyond_perplexity.storage.shards import check_schema, from_ranges

if TYPE_CHECKING:
    from beyond_perplexity.options import Rows

Paths = Sequence[str | Path]


class Input(NamedTuple):
    """A kind of files, in words: Parquet of a schema (``module:NAME`` in `schemas`), or JSON.

    A model goes by its file's name or its folder's; JSON `lists` are joined; a `reader`
    (``module:function``) takes the paths of files too large to be read whole.
    """

    words: str
    schema: str = ""
    named_by_folder: bool = False
    lists: bool = False
    reader: str = ""


_EXAMPLES = "beyond_perplexity.report.examples"
# Where the files are: `planning.report`.
INPUTS: Rows[Input] = {
    "measures": Input("measures of every sample set", "tendencies:TENDENCY_MEASURES"),
    "embedding_measures": Input(
        "measures of every sample set, with those of embedded documents",
        "tendencies:TENDENCY_MEASURES",
    ),
    "raw_measures": Input(
        "measures in raw text of every sample set", "tendencies:TENDENCY_MEASURES"
    ),
    "resamples": Input("measures of resamples of the training set", "tendencies:TENDENCY_MEASURES"),
    "curves": Input("curves of every sample set and of the test set", "tendencies:CURVES"),
    "sample_size": Input("measures of ever more documents", "tendencies:SAMPLE_SIZE"),
    "sensitivity": Input("minimum detectable effects", "tendencies:SENSITIVITY"),
    "models": Input("model.json of every model", named_by_folder=True),
    "perplexities": Input("perplexity of every model, JSON"),
    "perplexity_differences": Input(
        "differences of models in bits per byte", "perplexity:PERPLEXITY_DIFFERENCES"
    ),
    "training": Input(
        "training curves of every model", "perplexity:TRAINING", named_by_folder=True
    ),
    "estimates": Input("estimates of every proposal", "estimates:ESTIMATES"),
    "beside": Input(
        "scores of models without latent variables on the same instances", "draws:INSTANCE_SCORES"
    ),
    "costs": Input("seconds of every job that draws", "draws:DRAW_COSTS"),
    "posteriors": Input("latents under the posterior and under every proposal", "draws:POSTERIOR"),
    "choices": Input(
        "estimates of every proposal on the split that chooses", "estimates:ESTIMATES"
    ),
    "importance_instances": Input(
        "estimates of every instance", "estimates:IMPORTANCE_DIAGNOSTICS"
    ),
    "importance_curves": Input("estimates of ever more samples", "estimates:IMPORTANCE_CURVES"),
    "replicates": Input("estimates of disjoint samples", "estimates:IMPORTANCE_REPLICATES"),
    "gaps": Input("simulated documents estimated from both sides", "estimates:IMPORTANCE_GAPS"),
    "example_samples": Input(
        "a shard of samples of every sample set", reader=f"{_EXAMPLES}:read_example_samples"
    ),
    "example_documents": Input(
        "documents of the corpus", reader=f"{_EXAMPLES}:read_example_documents"
    ),
    "latents": Input("latents of an instance of every model, JSON", lists=True),
    "contrasts": Input("contrastive entropy of every model", "contrastive:CONTRASTS"),
    "contrast_differences": Input(
        "differences of models in contrastive entropy", "contrastive:CONTRAST_DIFFERENCES"
    ),
    "pair_contrasts": Input(
        "external pairs under every model, in a folder with the name of the pairs",
        reader="beyond_perplexity.report.contrastive_pairs:read_pair_contrasts",
    ),
    "sentence_models": Input(
        "model.json of every model that is trained against distorted sentences",
        named_by_folder=True,
    ),
    "partitions": Input(
        "log Z by length of every model without likelihood", "contrastive:PARTITIONS"
    ),
    "given_lengths": Input("perplexity given the lengths of every model without likelihood, JSON"),
    "semantics": Input("measures of the predictions of every model", "semantics:SEMANTICS"),
    "semantic_differences": Input(
        "differences of models in these measures", "semantics:SEMANTIC_DIFFERENCES"
    ),
    "semantic_correlations": Input(
        "correlations of these measures", "semantics:SEMANTIC_CORRELATIONS"
    ),
    "probes": Input("what every evaluator notices", "semantics:PROBES"),
    "human_correlations": Input(
        "correlations of every evaluator with human scores", "semantics:HUMAN_CORRELATIONS"
    ),
    "human_scores": Input("the pairs behind them", "semantics:HUMAN_SCORES"),
    "relation_measures": Input(
        "measures of all papers, side by side", "relations:RELATION_MEASURES"
    ),
    "relation_correlations": Input("rank correlations of these", "relations:RELATION_CORRELATIONS"),
    "relation_orders": Input("orders of models by these", "relations:RELATION_ORDERS"),
}


def schema_of(kind: str) -> pa.Schema:
    """Return the schema of a kind of files that are tables."""
    schema: pa.Schema = resolve_name(f"beyond_perplexity.schemas.{INPUTS[kind].schema}")
    return schema


def read_tables(paths: Paths, schema: pa.Schema, *, named_by_folder: bool = False) -> pd.DataFrame:
    """Read Parquet files of one schema into one table; a row that two files share is kept once."""
    if not paths:
        raise InputError(f"no {schema_name(schema)} file was given")
    parts = []
    for path in paths:
        with check_schema(path, schema) as file:
            part = as_rows(file.read(columns=schema.names))
        parts.append(part.assign(model=_owner(path)) if named_by_folder else part)
    filled = [part for part in parts if len(part)] or parts[:1]
    return pd.concat(filled, ignore_index=True).drop_duplicates(ignore_index=True)


def as_rows(table: pa.Table) -> pd.DataFrame:
    """Make a table of pandas in which an unknown number is NaN, an unknown text None."""
    rows = table.to_pandas()
    texts = rows.select_dtypes("str").astype(object)
    return rows.assign(**texts.where(texts.notna(), None))


def _owner(path: str | Path) -> str:
    return Path(path).resolve().parent.name


def _read_json(path: str | Path, expected: type[dict] | type[list]) -> Any:
    value = read_json(path, "JSON file of a run", "make it again")
    if not isinstance(value, expected):
        raise InputError(f"{path}: holds no JSON {'object' if expected is dict else 'list'}")
    return value


def read_descriptions(
    paths: Paths, *, named_by_folder: bool, keys: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Read JSON objects with certain keys, by the name of their folder or of the file."""
    found = {}
    for path in paths:
        held = _read_json(path, dict)
        for key in keys:
            if not isinstance(held.get(key), dict):
                raise InputError(f"{path}: has no object '{key}'; give what the workflow wrote")
        found[_owner(path) if named_by_folder else Path(path).stem] = held
    return found


def read_input(kind: str, paths: Paths) -> Any:
    """Read the files of one kind; where there is none there is no table (None), object or list."""
    row = INPUTS[kind]
    if row.reader:
        return resolve_name(row.reader)(paths) if paths else None
    if row.schema:
        if not paths:
            return None
        return read_tables(paths, schema_of(kind), named_by_folder=row.named_by_folder)
    if row.lists:
        return [entry for path in paths for entry in _read_json(path, list)]
    return read_descriptions(paths, named_by_folder=row.named_by_folder)


def read_inputs(name: str, exhibit: Exhibit, given: Mapping[str, Any]) -> dict[str, Any]:
    """Read what a table or figure is made of: words of `as_ranges` by the kind of files."""
    for kind, files in given.items():
        if kind not in exhibit.inputs or not isinstance(files, list):
            raise InputError(f"{name} has no list of files '{kind}'; give {exhibit.inputs}")
    for kind in exhibit.inputs:
        if kind not in exhibit.optional and not given.get(kind):
            raise InputError(f"{name} needs files '{kind}'")
    return {kind: read_input(kind, from_ranges(given.get(kind, []))) for kind in exhibit.inputs}
