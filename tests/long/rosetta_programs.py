"""Print what other programs say of a model and a text, as JSON; run by an interpreter that has them.

It knows nothing of this package. Arguments: the folder of a Hugging Face model, a JSONL file of
texts, and a folder to write to; optionally an ARPA file and a text of sentences for KenLM, and a
GGUF file of the same model for llama.cpp.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch


def lm_evaluation_harness(folder: str, texts: Path) -> dict[str, float]:
    """Evaluate a task whose output is loglikelihood_rolling, as wikitext's is."""
    import lm_eval
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.models.huggingface import HFLM

    metrics = ["word_perplexity", "byte_perplexity", "bits_per_byte"]
    task = ConfigurableTask(
        config={
            "task": "rolling",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(texts)}},
            "output_type": "loglikelihood_rolling",
            "test_split": "test",
            "doc_to_text": "",
            "doc_to_target": lambda document: document["text"],
            "metric_list": [{"metric": name} for name in metrics],
        }
    )
    model = HFLM(pretrained=folder, device="cpu", dtype="float32", batch_size=4)
    found = lm_eval.evaluate(model, {"rolling": task}, bootstrap_iters=0)["results"]["rolling"]
    return {name: found[f"{name},none"] for name in metrics}


def stride_recipe(folder: str, texts: list[str]) -> dict[str, float]:
    """Do as the page "Perplexity of fixed-length models" says, with the model's own loss."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("\n\n".join(texts), return_tensors="pt").input_ids
    length = model.config.max_position_embeddings
    stride, end_before, sums, count, means = length // 2, 0, 0.0, 0, []
    for begin in range(0, ids.shape[1], stride):
        end = min(begin + length, ids.shape[1])
        window = ids[:, begin:end]
        targets = window.clone()
        targets[:, : -(end - end_before)] = -100
        with torch.no_grad():
            mean = model(window, labels=targets).loss
        losses = int((targets != -100).sum()) - 1
        sums, count = sums + float(mean) * losses, count + losses
        means.append(float(mean))
        end_before = end
        if end == ids.shape[1]:
            break
    return {
        "perplexity": math.exp(sums / count),
        "perplexity, earlier recipe": math.exp(sum(means) / len(means)),
    }


def evaluate_metric(folder: str, texts: list[str], script: str) -> dict[str, float]:
    """Compute the metric of the library evaluate, from its script (a folder or the hub's name)."""
    import evaluate

    metric = evaluate.load(script, module_type="metric")
    length = json.loads((Path(folder) / "config.json").read_text())
    most = length.get("n_positions", length.get("max_position_embeddings"))
    found = metric.compute(
        predictions=texts, model_id=folder, batch_size=2, device="cpu", max_length=most
    )
    return {"mean_perplexity": float(found["mean_perplexity"])}


def kenlm_query(arpa: str, sentences: list[str]) -> dict[str, float]:
    """Add up as ``query`` does: base 10, a token more for the end of each sentence."""
    import kenlm

    model = kenlm.Model(arpa)
    total = unknown = 0.0
    tokens = oov = 0
    for sentence in sentences:
        for log10, _, is_oov in model.full_scores(sentence, bos=True, eos=True):
            total, tokens = total + log10, tokens + 1
            unknown, oov = unknown + is_oov * log10, oov + is_oov
    return {
        "Perplexity including OOVs": 10 ** (-total / tokens),
        "Perplexity excluding OOVs": 10 ** (-(total - unknown) / (tokens - oov)),
    }


def llama_cpp(gguf: str, text: str, context: int) -> dict[str, float]:
    """Walk through chunks as ``llama-perplexity`` does, with the logits of llama.cpp itself."""
    from llama_cpp_py_sync import _cffi_bindings as bindings  # its C interface

    return {"PPL": _chunks(bindings, gguf, text, context)}


def _chunks(bindings: object, gguf: str, text: str, context: int) -> float:
    raise NotImplementedError


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--model", "--texts", "--arpa", "--sentences", "--gguf", "--evaluate-script"):
        parser.add_argument(name)
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    if options.model:
        texts = [json.loads(line)["text"] for line in Path(options.texts).open(encoding="utf-8")]
        harness = lm_evaluation_harness(options.model, Path(options.texts))
        found["lm-evaluation-harness"] = harness
        found["stride recipe"] = stride_recipe(options.model, texts)
        if options.evaluate_script:
            script = options.evaluate_script
            found["evaluate"] = evaluate_metric(options.model, texts, script)
    if options.arpa:
        lines = Path(options.sentences).read_text(encoding="utf-8").splitlines()
        found["KenLM"] = kenlm_query(options.arpa, lines)
    print(
        json.dumps(
            {name: {k: np.float64(v) for k, v in one.items()} for name, one in found.items()}
        )
    )


if __name__ == "__main__":
    main()
