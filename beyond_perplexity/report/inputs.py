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
from beyond_perplexity.storage.inputs import read_json
from beyond_perplexity.storage.shards import check_schema, from_ranges

if TYPE_CHECKING:
    from beyond_perplexity.options import Rows

Paths = Sequence[str | Path]


class Input(NamedTuple):
    """A kind of files: tables of a schema (``module:NAME``), their folder in column `owner`, or
    JSON objects by file or owner, `lists` joined; a `reader` takes the paths of large ones."""

    schema: str = ""
    owner: str = ""
    lists: bool = False
    reader: str = ""


_EXAMPLES = "beyond_perplexity.report.examples"
# Where the files are: `planning.report`.
INPUTS: Rows[Input] = {
    "measures": Input("tendencies:TENDENCY_MEASURES"),  # of every sample set
    "embedding_measures": Input("tendencies:TENDENCY_MEASURES"),  # with those of embedded documents
    "raw_measures": Input("tendencies:TENDENCY_MEASURES"),  # in raw text
    "words": Input("tendencies:WORDS_AND_PHRASES"),  # n-grams of every sample set
    "resamples": Input("tendencies:TENDENCY_MEASURES"),  # of resamples of the training set
    "curves": Input("tendencies:CURVES"),  # of every sample set and of the test set
    "sample_size": Input("tendencies:SAMPLE_SIZE"),  # measures of ever more documents
    "sensitivity": Input("tendencies:SENSITIVITY"),  # minimum detectable effects
    "prompt_measures": Input("tendencies:TENDENCY_MEASURES"),  # of continuations of prompts
    "prompt_sensitivity": Input("tendencies:SENSITIVITY"),  # of these
    "models": Input(owner="model"),  # model.json of every model
    "perplexities": Input(),  # of every model
    "perplexity_differences": Input("perplexity:PERPLEXITY_DIFFERENCES"),  # in bits per byte
    "perplexity_parts": Input("perplexity:PERPLEXITY_PARTS"),  # where they differ
    "training": Input("perplexity:TRAINING", owner="model"),  # curves of every model
    "estimates": Input("estimates:ESTIMATES"),  # of every proposal
    "beside": Input("draws:INSTANCE_SCORES"),  # of models without latents, on the same instances
    "costs": Input("draws:DRAW_COSTS"),  # seconds of every job that draws
    "posteriors": Input("draws:POSTERIOR"),  # latents under the posterior and every proposal
    "choices": Input("estimates:ESTIMATES"),  # on the split that chooses
    "importance_instances": Input("estimates:IMPORTANCE_DIAGNOSTICS"),  # of every instance
    "importance_curves": Input("estimates:IMPORTANCE_CURVES"),  # of ever more samples
    "replicates": Input("estimates:IMPORTANCE_REPLICATES"),  # of disjoint samples
    "gaps": Input("estimates:IMPORTANCE_GAPS"),  # simulated documents, estimated from both sides
    "thought_sums": Input("estimates:THOUGHT_SUMS"),  # beside estimates of thoughts
    "example_samples": Input(reader=f"{_EXAMPLES}:read_example_samples"),  # a shard a sample set
    "example_documents": Input(reader=f"{_EXAMPLES}:read_example_documents"),  # of the corpus
    "latents": Input(lists=True),  # of an instance of every model
    "contrasts": Input("contrastive:CONTRASTS"),  # of every model
    "contrast_parts": Input("contrastive:CONTRASTS"),  # the same, where they are split
    "contrast_differences": Input("contrastive:CONTRAST_DIFFERENCES"),  # of models
    # External pairs under every model, in a folder with the name of the pairs.
    "pair_contrasts": Input("contrastive:PAIR_CONTRASTS", owner="source"),
    "sentence_models": Input(owner="model"),  # those that are trained against distorted sentences
    "partitions": Input("contrastive:PARTITIONS"),  # log Z by length, of models without likelihood
    "given_lengths": Input(),  # their perplexity given the lengths
    "semantics": Input("semantics:SEMANTICS"),  # measures of the predictions of every model
    "semantic_differences": Input("semantics:SEMANTIC_DIFFERENCES"),  # of models in these
    "semantic_correlations": Input("semantics:SEMANTIC_CORRELATIONS"),  # of these
    "probes": Input("semantics:PROBES"),  # what every evaluator notices
    "human_correlations": Input("semantics:HUMAN_CORRELATIONS"),  # of evaluators with human scores
    "human_scores": Input("semantics:HUMAN_SCORES"),  # the pairs behind them
    "relation_measures": Input("relations:RELATION_MEASURES"),  # of all papers, side by side
    "relation_correlations": Input("relations:RELATION_CORRELATIONS"),  # rank correlations of these
    "relation_orders": Input("relations:RELATION_ORDERS"),  # of models, by these
}


def schema_of(kind: str) -> pa.Schema:
    """Return the schema of a kind of files that are tables."""
    schema: pa.Schema = resolve_name(f"beyond_perplexity.schemas.{INPUTS[kind].schema}")
    return schema


def _read_tables(paths: Paths, schema: pa.Schema, owner: str) -> pd.DataFrame:
    """Read Parquet files of one schema into one table; a row that two files share is kept once."""
    parts = []
    for path in paths:
        with check_schema(path, schema) as file:
            part = as_rows(file.read(columns=schema.names))
        parts.append(part.assign(**{owner: _folder(path)}) if owner else part)
    filled = [part for part in parts if len(part)] or parts[:1]
    lists = {field.name for field in schema if pa.types.is_list(field.type)}
    table = pd.concat(filled, ignore_index=True)
    return table.drop_duplicates([name for name in table if name not in lists], ignore_index=True)


def as_rows(table: pa.Table) -> pd.DataFrame:
    """Make a table of pandas in which an unknown number is NaN, an unknown text None."""
    rows = table.to_pandas()
    texts = rows.select_dtypes("str").astype(object)
    return rows.assign(**texts.where(texts.notna(), None))


def _folder(path: str | Path) -> str:
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
        found[_folder(path) if named_by_folder else Path(path).stem] = held
    return found


def read_input(kind: str, paths: Paths) -> Any:
    """Read the files of one kind; where there is none there is no table (None), object or list."""
    row = INPUTS[kind]
    if row.lists:
        return [entry for path in paths for entry in _read_json(path, list)]
    if not (row.reader or row.schema):
        return read_descriptions(paths, named_by_folder=bool(row.owner))
    if not paths:
        return None
    if row.reader:
        return resolve_name(row.reader)(paths)
    return _read_tables(paths, schema_of(kind), row.owner)


def read_inputs(name: str, exhibit: Exhibit, given: Mapping[str, Any]) -> dict[str, Any]:
    """Read what a table or figure is made of: words of `as_ranges` by the kind of files."""
    for kind, files in given.items():
        if kind not in exhibit.inputs or not isinstance(files, list):
            raise InputError(f"{name} has no list of files '{kind}'; give {exhibit.inputs}")
    for kind in exhibit.inputs:
        if kind not in exhibit.optional and not given.get(kind):
            raise InputError(f"{name} needs files '{kind}'")
    return {kind: read_input(kind, from_ranges(given.get(kind, []))) for kind in exhibit.inputs}
