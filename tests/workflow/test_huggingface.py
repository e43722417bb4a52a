"""A Hugging Face external model goes through the stages like a model of our own.

Needs Snakemake, transformers. Oracles: the rows of every other model, and what may not be rerun.
"""

import json
import shutil

import pyarrow.parquet as pq
import yaml

from beyond_perplexity.tendencies.definitions import TENDENCIES
from tests.unit.huggingface_models import make_llama
from tests.workflow.conftest import SMOKE


def test_a_model_in_a_folder_is_scored_and_generates(finished, checkout):
    folder = checkout.path / "external"
    make_llama(folder)
    path = checkout.path / "configs" / "smoke.yaml"
    config = yaml.safe_load(path.read_text())
    external = {
        "family": "huggingface",
        "corpus": "wikipedia",
        "architecture": {"path": "external"},
    }
    config["models"]["mine"] = external
    config["generation"]["models"] = ["mine"]
    path.write_text(yaml.safe_dump(config))
    results = checkout.path / "results"
    for part in ("corpora", "references"):
        shutil.copytree(finished.path / "results" / part, results / part)
    measured = "results/tendencies/mine/ancestral/measures.parquet"
    targets = ["--rerun-triggers", "mtime", "--", measured, "results/perplexity/mine.json"]
    checkout.snakemake(*SMOKE, *targets)
    generation = config["generation"]
    samples = pq.read_table(results / "samples/mine/ancestral").to_pylist()
    assert len(samples) == generation["documents"]
    assert max(row["n_tokens"] for row in samples) <= generation["maximum_length"]
    tendencies = set(pq.read_table(checkout.path / measured)["tendency"].to_pylist())
    other = finished.path / "results/tendencies/lstm/ancestral/measures.parquet"
    sized = {name for name, row in TENDENCIES.items() if row.sizes}  # of long texts alone
    assert tendencies - sized == set(pq.read_table(other)["tendency"].to_pylist()) - sized
    perplexity = json.loads((results / "perplexity/mine.json").read_text())
    assert set(perplexity["perplexity"]) == {"token", "word", "character", "byte"}
    assert not perplexity["infinite"]
    assert (perplexity["text"], perplexity["cleaned"]["text"]) == ("raw", "cleaned")
    assert perplexity["documents"] == perplexity["cleaned"]["documents"]
    # capitals and what accents take in UTF-8 stay, and no token has got a blank
    sizes = [part["n"]["byte"] / part["documents"] for part in (perplexity, perplexity["cleaned"])]
    assert sizes[0] < sizes[1]
    assert "Nothing to be done" in checkout.snakemake(*SMOKE, *targets).stdout
    with open(folder / "config.json", "a", encoding="utf-8") as file:
        file.write(" ")
    assert "train" in checkout.snakemake("--dry-run", *SMOKE, *targets).stdout
