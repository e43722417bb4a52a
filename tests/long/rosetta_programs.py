"""Print what other programs say of a model and a text, as JSON; for an interpreter that has them.

It knows nothing of this package. The folder of a Hugging Face model goes with a JSONL file of
texts, an ARPA file with a text of sentences (for KenLM). For llama.cpp a GGUF file of the same
model is written.
"""

import argparse
import json
import math
import re
import subprocess
from pathlib import Path

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
    from transformers import PreTrainedTokenizerBase as Base

    # The released script reads it of models without a token to pad with; transformers 5 has
    # dropped the name, and of saved tokenizers without added tokens both hold the same.
    Base.special_tokens_map_extended = Base.special_tokens_map
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


def write_gguf(folder: str, path: str, begins: bool = False) -> None:
    """Write a GPT-2 of Hugging Face as GGUF, in float32; `begins`: each text has a beginning."""
    import gguf
    from safetensors.torch import load_file
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder)
    tokenizer = json.loads((Path(folder) / "tokenizer.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(4 * config.n_embd)
    writer.add_block_count(config.n_layer)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    vocabulary = sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])
    special = {one["content"] for one in tokenizer["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([token for token, _ in vocabulary])
    kinds = [gguf.TokenType.CONTROL, gguf.TokenType.NORMAL]
    writer.add_token_types([kinds[token not in special] for token, _ in vocabulary])
    merges = tokenizer["model"]["merges"]
    writer.add_token_merges([" ".join(m) if isinstance(m, list) else m for m in merges])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    if begins:
        writer.add_add_bos_token(True)
    weights = load_file(Path(folder) / "model.safetensors")
    weights = {name.removeprefix("transformer."): part for name, part in weights.items()}
    names = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
    for layer in range(config.n_layer):
        parts = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
        to = ("attn_norm", "attn_qkv", "attn_output", "ffn_norm", "ffn_up", "ffn_down")
        names |= {f"h.{layer}.{x}": f"blk.{layer}.{y}" for x, y in zip(parts, to, strict=True)}
    for name, part in weights.items():
        module, _, leaf = name.rpartition(".")
        if module not in names:
            continue  # the output layer is tied
        turned = part.T if ".c_" in module and leaf == "weight" else part  # Conv1D
        writer.add_tensor(f"{names[module]}.{leaf}", turned.contiguous().float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama_cpp(folder: str, gguf_file: str, texts: list[str], context: int) -> dict[str, float]:
    """Walk through chunks as ``llama-perplexity`` does, each prediction made by llama.cpp itself.

    Its server is asked for the next token after every prefix, with the probabilities of all ids.
    The tokens are those of the model's own tokenizer, which adds none.
    """
    import xllamacpp
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer("\n".join(texts)).input_ids
    parameters = xllamacpp.CommonParams()
    parameters.model.path = gguf_file
    parameters.n_ctx, parameters.n_parallel, parameters.warmup = context + 1, 1, False
    # keys and values in float32, so that only the order of sums differs
    parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    server = xllamacpp.Server(parameters)
    # An answer without a whole letter has no probabilities, so it is always "a"; the probabilities
    # are those before any sampling.
    letter = tokenizer.convert_tokens_to_ids("a")
    request = {"n_predict": 1, "n_probs": len(tokenizer), "logit_bias": [[letter, 1000.0]]}
    request |= {"temperature": 0.0, "cache_prompt": False}
    scores = []
    for begin in range(0, len(tokens) - context + 1, context):
        chunk = tokens[begin : begin + context]
        for place in range(context // 2, context - 1):
            answer = server.handle_completions({"prompt": chunk[: place + 1], **request})
            held = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
            found = {one["id"]: one["logprob"] for one in held}
            scores.append(found[chunk[place + 1]])
    return {"PPL": math.exp(-sum(scores) / len(scores))}


def llama_perplexity(program: str, folder: str, gguf: str, texts: list[str]) -> dict[str, float]:
    """Run ``llama-perplexity`` itself; keys and values in float32, one thread."""
    context = json.loads((Path(folder) / "config.json").read_text())["n_positions"]
    text = Path(gguf).with_suffix(".txt")
    text.write_text("\n".join(texts), encoding="utf-8")
    command = [program, "-m", gguf, "-f", str(text), "-c", str(min(512, context)), "-t", "1"]
    command += ["--cache-type-k", "f32", "--cache-type-v", "f32"]
    for _ in range(5):  # it may end before its last lines are out, on a busy machine
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        estimate = re.search(r"Final estimate: PPL = ([0-9.]+)", done.stdout + done.stderr)
        if estimate:
            return {"PPL": float(estimate[1])}
    raise RuntimeError(f"no estimate: {done.stderr[-2000:]}")


def evaluate_by_hand(folder: str, texts: list[str]) -> dict[str, float]:
    """Work out the mean of perplexities with transformers alone, a text at a time, unpadded."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    room = model.config.max_position_embeddings - 1
    found = []
    for text in texts:
        ids = [tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False).input_ids[:room]]
        row = torch.tensor([ids])
        with torch.no_grad():
            found.append(math.exp(model(row, labels=row).loss))
    return {"mean_perplexity": sum(found) / len(found)}


def main() -> None:
    parser = argparse.ArgumentParser()
    named = ["--model", "--texts", "--arpa", "--sentences", "--gguf"]
    for name in [*named, "--evaluate-script", "--llama-perplexity"]:
        parser.add_argument(name)
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    if options.model:
        lines = Path(options.texts).read_text(encoding="utf-8").splitlines()
        texts = [json.loads(line)["text"] for line in lines]
        harness = lm_evaluation_harness(options.model, Path(options.texts))
        found["lm-evaluation-harness"] = harness
        found["stride recipe"] = stride_recipe(options.model, texts)
        script = options.evaluate_script
        evaluated = evaluate_metric(options.model, texts, script) if script else None
        found["evaluate"] = evaluated or evaluate_by_hand(options.model, texts)
    if options.gguf:
        write_gguf(options.model, options.gguf)
        context = json.loads((Path(options.model) / "config.json").read_text())["n_positions"]
        found["llama.cpp"] = llama_cpp(options.model, options.gguf, texts, min(512, context))
    if options.llama_perplexity:
        run = options.llama_perplexity, options.model, options.gguf, texts
        found["llama-perplexity"] = llama_perplexity(*run)
    if options.arpa:
        lines = Path(options.sentences).read_text(encoding="utf-8").splitlines()
        found["KenLM"] = kenlm_query(options.arpa, lines)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
