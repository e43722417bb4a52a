"""Thoughts as latent variables: draws, weights, files, estimates.

Oracles: a linear solve, and powers of a matrix, for a model that remembers one symbol; enumeration
of all thoughts of a small Transformer by whole passes; unbiased means within their errors.
"""

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PhiConfig,
    PhiForCausalLM,
    PreTrainedTokenizerFast,
)

import beyond_perplexity
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.served_thoughts import DrawCheck
from beyond_perplexity.importance.thought_draws import (
    Question,
    ThoughtEnds,
    ThoughtOptions,
    mixed_log_q,
)
from beyond_perplexity.importance.thought_files import ThoughtFile, sum_thoughts
from beyond_perplexity.importance.thoughts import (
    answer_beside,
    draw_thoughts,
    follow_thoughts,
    read_question,
)
from beyond_perplexity.models import registry
from beyond_perplexity.models.contract import LanguageModel, TensorState
from beyond_perplexity.models.transformer import Transformer
from beyond_perplexity.vocabulary import BOS, EOS
from scripts import draw_thoughts as draw_job
from scripts import reduce_thoughts as reduce_job
from tests.unit import huggingface_models, thoughts_reference
from tests.unit.fake_server import FakeServer

A, B, END, YES = 3, 4, 5, 6  # two symbols of thoughts, their marker, an answer
SYMBOLS = (A, B, END, YES, EOS)


class Remembering(LanguageModel):
    """Its next token depends on the last two, of ids 0 to 6."""

    vocabulary_size = 7

    def __init__(self, seed=0):
        super().__init__()
        logits = torch.randn(7, 7, 7, generator=torch.Generator().manual_seed(seed)) * 1.5
        logits[:, :, [BOS, 2]] = -torch.inf
        self.register_buffer("table", logits)

    config = property(lambda self: {})

    def forward(self, tokens):
        before = torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], 1)
        return self.table[before, tokens]

    def initial_state(self, batch_size, maximum_length):
        return TensorState((torch.zeros(batch_size, dtype=torch.int64),))

    def step(self, tokens, state):
        return self.table[state.parts[0], tokens], TensorState((tokens,))


def question(answer=(YES, EOS), shown=()):
    return Question(
        0, np.array([BOS, A, YES]), np.array(shown, np.int64), np.array(answer), len(answer)
    )


ENDS = ThoughtEnds(np.array([END]), np.array([EOS]))


def exact(model, most, prompt=(YES, A), answer=(YES, EOS)):
    """Sum over all thoughts of at most so many tokens, by the states (last two) of the chain."""
    p = model.table.double().softmax(-1).numpy()
    inside = [(x, y) for x in range(7) for y in (A, B, YES)]
    at = {pair: k for k, pair in enumerate(inside)}
    q, ends = np.zeros((len(inside),) * 2), np.zeros(len(inside))
    for (x, y), k in at.items():
        for z in (A, B, YES):
            q[k, at[y, z]] = p[x, y, z]
        one, *rest = answer
        after = p[y, END, one]
        for u, v, w in zip((END, *answer), answer, rest, strict=False):
            after *= p[u, v, w]
        ends[k] = p[x, y, END] * after
    begin = np.zeros(len(inside))
    begin[at[prompt[1], prompt[0]]] = 1
    if most is None:
        return float(begin @ np.linalg.solve(np.eye(len(inside)) - q, ends))
    total, cut = 0.0, begin
    for _ in range(most):
        total += cut @ ends
        cut = cut @ q
    return float(total), float(cut.sum())


@pytest.mark.parametrize("proposal", ["own", "answer", "mixture"])
def test_weights_have_the_mean_of_a_linear_solve(proposal):
    """Oracle: p with a cap, and without, of the chain; z values of 4,000 draws."""
    model, options = Remembering(), ThoughtOptions(proposal, 0.3, 12)
    asked = question(shown=(BOS, YES, YES))
    read = read_question(model, asked, 12)
    found = draw_thoughts(read, ENDS, options, range(4000), seed=3)
    capped, cut = exact(model, 12)
    weights = np.exp(found.log_p_answer + found.log_p_thought - found.log_q_thought)
    for values, truth in (
        (weights, capped),
        (found.cut * np.exp(found.log_p_thought - found.log_q_thought), cut),
    ):
        error = values.std(ddof=1) / math.sqrt(len(values))
        assert abs(values.mean() - truth) < 4 * error
    assert capped < exact(model, None) < capped + cut
    assert exact(model, 400)[0] == pytest.approx(exact(model, None))
    if proposal == "mixture":
        assert (weights <= np.exp(found.log_p_answer) / 0.3 + 1e-12).all()
    part = draw_thoughts(read, ENDS, options, range(70, 90), seed=3)
    for whole, own in zip(found, part, strict=True):
        assert np.array_equal(whole[70:90], own)


@pytest.mark.parametrize(("most", "claimed"), [(12, False), (20, True)])
def test_bounds_of_thoughts_of_any_length_allow_for_those_that_were_cut(most, claimed):
    """Oracle: p with a cap, and without, of a chain; the fixed seed of one set of prompts."""
    model, rows, log_p = Remembering(), [], np.zeros(3)
    for instance, last in enumerate((A, B, YES) * 3):
        asked = question()._replace(instance=instance, prompt=np.array([BOS, A, last]))
        read = read_question(model, asked, most)
        found = draw_thoughts(read, ENDS, ThoughtOptions("own", 0.5, most), range(200), seed=1)
        held = {"instance": instance, "sample": range(200), "n_tokens": 2}
        held |= {"log_p_answer": found.log_p_answer, "cut": found.cut.astype(int)}
        rows.append(pd.DataFrame(held))
        capped, cut = exact(model, most, (last, A))
        log_p += np.log([capped, exact(model, None, (last, A)), capped + cut])
    found = beyond_perplexity.estimate(thoughts=pd.concat(rows), options={"bootstrap": 0})
    (bounds,) = found.summary["thoughts"]["bounds"]
    above, truth, below = np.exp(-log_p / 18)
    assert bounds["claimed"] == claimed
    assert below * 0.85 < bounds["low"] <= below < truth < above <= bounds["high"] < 1.1 * above
    how = "enclose" if claimed else "do not claim to enclose"
    assert f"] {how} the perplexity of thoughts of any length" in found.text


def small_transformer():
    torch.manual_seed(4)
    sizes = {"width": 16, "heads": 2, "layers": 1, "context_length": 16, "feedforward_size": 16}
    model = Transformer(7, sizes)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    return model.double().eval()


def log_prob(model, prompt, rest):
    """Score what follows a prompt in one whole pass."""
    whole = torch.tensor([[*prompt, *rest]])
    scores = model(whole[:, :-1]).double().log_softmax(-1)[0]
    found = scores.gather(1, whole[0, 1:, None])[len(prompt) - 1 :, 0]
    return found.detach().numpy()


def all_thoughts(most):
    """List the thoughts that end with the marker in time, of all tokens but the end."""
    inside = [k for k in range(7) if k not in (BOS, END, EOS)]
    for n in range(most):
        for z in itertools.product(inside, repeat=n):
            yield (*z, END)


@pytest.mark.parametrize("proposal", ["own", "answer", "mixture"])
def test_all_thoughts_of_a_transformer_add_up(proposal):
    """Oracle: whole passes over every thought of at most three tokens; Σ q w = p to 1e-9."""
    model, asked = small_transformer(), question(shown=(BOS, YES, YES, B))
    listed = list(all_thoughts(3))
    padded = np.array([[*z, *[A] * (3 - len(z))] for z in listed]).T
    forced = iter(torch.from_numpy(padded))

    def choose(weights, seen, rows):
        return next(forced, torch.full((len(listed),), A))[rows]

    read = read_question(model, asked, 3)
    found, seen = follow_thoughts(read, ENDS, 3, choose, len(listed))
    assert found.tokens.tolist() == [len(z) for z in listed]
    assert not found.cut.any()
    prompt = asked.prompt.tolist()
    truths = []
    for row, z in enumerate(listed):
        scores = log_prob(model, prompt, [*z, *asked.answer])
        truths.append(scores.sum())
        own = (scores[: len(z)].sum(), scores[len(z) :].sum())
        assert (found.log_p_thought[row], found.log_p_answer[row]) == pytest.approx(own, abs=1e-5)
        shown = log_prob(model, asked.shown.tolist(), z).sum()
        assert seen[row] == pytest.approx(shown, abs=1e-5)
    options = ThoughtOptions(proposal, 0.4, 3)
    log_q = found.log_p_thought
    if proposal != "own":
        log_q = mixed_log_q(log_q, seen, options)
    weights = np.exp(found.log_p_answer + found.log_p_thought - log_q)
    p = np.exp(truths).sum()
    assert np.exp(log_q) @ weights == pytest.approx(p, rel=1e-9)
    drawn = draw_thoughts(read, ENDS, options, range(2000), seed=1)
    values = np.exp(drawn.log_p_answer + drawn.log_p_thought - drawn.log_q_thought)
    assert abs(values.mean() - p) < 4 * values.std(ddof=1) / math.sqrt(len(values))


def test_no_thought_and_the_greedy_one_are_scored_beside():
    """Oracle: whole passes."""
    model, asked = small_transformer(), question()
    found = answer_beside(read_question(model, asked, 6), ENDS, 6, np.array([END]))
    prompt = asked.prompt.tolist()
    assert found.log_p_no_thought == pytest.approx(
        log_prob(model, [*prompt, END], asked.answer).sum(), abs=1e-5
    )
    thought = []
    while len(thought) < 6 and thought[-1:] != [END]:
        logits = model(torch.tensor([[*prompt, *thought]]))[0, -1]
        thought.append(int(logits.argmax()))
    if thought[-1] == END and EOS not in thought:
        expected = log_prob(model, [*prompt, *thought], asked.answer).sum()
        assert found.log_p_greedy == pytest.approx(expected, abs=1e-5)
    else:
        assert found.log_p_greedy == -math.inf


def test_markers_of_several_tokens_stops_and_little_room():
    model = Remembering(1)
    two = ThoughtEnds(np.array([A, END]), np.array([EOS]))
    forced = iter(torch.tensor([[A, A, B, A], [END, A, END, EOS], [A, END, A, A], [B, A, A, B]]))

    def choose(weights, seen, rows):
        return next(forced, torch.full((4,), B))[rows]

    found, _ = follow_thoughts(read_question(model, question(), 4), two, 4, choose, 4)
    assert found.tokens.tolist() == [2, 3, 4, 2]
    assert found.cut.tolist() == [False, False, True, False]
    assert np.isneginf(found.log_p_answer).tolist() == [False, False, True, True]
    with pytest.raises(InputError, match="more than the model's context of 16"):
        read_question(small_transformer(), question(), 1024)


def test_thoughts_side_by_side_are_those_of_a_plain_loop():
    """Oracle: transformers generates thoughts one by one, and scores each in a pass of its own."""
    external, model = thoughts_reference.small_reasoner()
    prompt, answer = torch.arange(20, 30), torch.tensor([40, 41, 1])
    with torch.random.fork_rng():
        looped = thoughts_reference.draw_by_loop(external, prompt, answer, 2, 24, 40)
    ours = [np.array(thoughts_reference.to_ours(ids)) for ids in (prompt, answer)]
    asked = Question(0, ours[0], np.empty(0, np.int64), ours[1], 3)
    ends, read = ThoughtEnds(np.array([5]), np.array([EOS])), read_question(model, asked, 24)
    held = [[*thoughts_reference.to_ours(z), *[EOS] * 24][:24] for z, *_ in looped]
    forced = iter(torch.tensor([*held, *held[:8]]).T)

    def choose(weights, seen, rows):
        return next(forced, torch.zeros(48, dtype=torch.int64))[rows]

    found, _ = follow_thoughts(read, ends, 24, choose, 48)
    assert 0 < found.cut.sum() < 40
    for row, (thought, log_p, log_p_answer) in enumerate(looped):
        assert found.tokens[row] == len(thought)
        assert found.log_p_thought[row] == pytest.approx(log_p, abs=1e-4)
        expected = log_p_answer if thought[-1] == 2 else -math.inf
        assert found.log_p_answer[row] == pytest.approx(expected, abs=1e-4)
    # Rows that are left out as they end, and other cuts of the samples, change no bit.
    options = ThoughtOptions("own", 0.5, 24)
    whole = draw_thoughts(read, ends, options, range(80), 1)
    parts = draw_thoughts(read, ends, options, range(37, 45), 1)
    for column, part in zip(whole, parts, strict=True):
        assert np.array_equal(column[37:45], part)
    mean = np.exp(whole.log_p_answer).mean(), np.mean([np.exp(one[2]) for one in looped])
    assert mean[0] == pytest.approx(mean[1], rel=0.5)


TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|><think>"
    "{% if enable_thinking is false %}{{ '\\n</think>\\n\\n' }}{% endif %}{% endif %}"
)
SPECIAL = ("<|user|>", "<|assistant|>", "<|end|>", "<think>", "</think>")


@pytest.fixture(scope="module")
def reasoner(tmp_path_factory):
    """Save a tiny Phi, random but for a liking to end thoughts, with a chat template."""
    folder = tmp_path_factory.mktemp("reasoner")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", *SPECIAL]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    given = {"initial_alphabet": alphabet, "special_tokens": special, "show_progress": False}
    tokenizer.train_from_iterator(
        huggingface_models.TEXTS, trainers.BpeTrainer(vocab_size=300, **given)
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    sizes |= {"num_attention_heads": 2, "vocab_size": len(fast)}
    torch.manual_seed(1)
    model = PhiForCausalLM(PhiConfig(max_position_embeddings=96, initializer_range=0.5, **sizes))
    model.lm_head.bias.data[fast.convert_tokens_to_ids("</think>")] = 5.0
    model.save_pretrained(folder)
    return folder


ROWS = [{"prompt": f"the cat {n}", "answer": "the low"} for n in range(5)]


def drawn(folder, out, **options):
    given = {"samples": 20, "most_tokens": 8, "shard_size": 2, "threads": 1, **options}
    return beyond_perplexity.thoughts(ROWS, out, model=folder, **given)


def test_thoughts_of_a_chat_model_are_scored_as_transformers_does(reasoner, tmp_path):
    """Oracle: transformers' logits of prompt, drawn thought and answer in one pass."""
    model = AutoModelForCausalLM.from_pretrained(reasoner).eval()
    tokenizer = AutoTokenizer.from_pretrained(reasoner)
    table = drawn(reasoner, tmp_path / "a").table
    assert len(table) == 100
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": ROWS[3]["prompt"]}], tokenize=False, add_generation_prompt=True
    )
    assert asked == "<|user|>the cat 3<|end|><|assistant|><think>"
    text = asked + "\n</think>" + "\n\nthe low" + "<|end|>"  # as the template turns thoughts off
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
    with torch.no_grad():
        scores = model(ids[:, :-1]).logits.double().log_softmax(-1)[0]
    each = scores.gather(1, ids[0, 1:, None])[:, 0].numpy()
    row = table[table["instance"] == 3].iloc[0]
    assert row["n_tokens"] == len(tokenizer("\n\nthe low").input_ids) + 1
    assert row["log_p_no_thought"] == pytest.approx(each[-int(row["n_tokens"]) :].sum(), abs=1e-4)
    assert row["n_bytes"] == 7
    # Drawn in another cut, and after a shard was lost, the numbers are the same.
    whole = drawn(reasoner, tmp_path / "b", shard_size=5).table
    pd.testing.assert_frame_equal(whole, table)
    (tmp_path / "a" / "00001.parquet").unlink()
    pd.testing.assert_frame_equal(drawn(reasoner, tmp_path / "a").table, table)
    with pytest.raises(InputError, match=r"00000.parquet: has thoughts of other prompts, options"):
        drawn(reasoner, tmp_path / "a", seed=9)
    drawn(reasoner, tmp_path / "c", seed=9)
    mixed = [str(tmp_path / "a" / "00000.parquet"), str(tmp_path / "c" / "00001.parquet")]
    with pytest.raises(InputError, match=r"00001.parquet: has thoughts of another model, or of o"):
        beyond_perplexity.estimate(thoughts=mixed)
    found = beyond_perplexity.estimate(thoughts=sorted(map(str, (tmp_path / "a").glob("*"))))
    plain = table.groupby("instance").log_p_answer.apply(lambda x: np.exp(x).mean())
    value = found.table.query("method == 'importance_sampling' and aggregation == 'instance'")
    expected = np.exp(-np.log(plain).sum() / (5 * row["n_tokens"]))
    assert value["value"].iloc[0] == pytest.approx(expected)
    for part in ("With no thought", "greedy thought", "Thoughts that were cut"):
        assert part in found.text


def run_job(monkeypatch, module, *given):
    monkeypatch.setattr("sys.argv", [module.__name__, *map(str, given)])
    module.main()


@pytest.mark.parametrize("proposal", ["own", "mixture"])
def test_jobs_give_what_the_commands_give_however_they_are_cut(
    reasoner, tmp_path, monkeypatch, proposal
):
    """Oracle: `thoughts` and `estimate`; shards of other sizes, of which one is empty.

    The jobs get the model as a run has it, in a folder of its own.
    """
    held = registry.open_any(str(reasoner))
    extra = {"source": held.description["source"]}
    registry.save_model(tmp_path / "model", held.model, held.vocabulary, extra)
    expected = drawn(reasoner, tmp_path / "out", proposal=proposal, samples=30).table
    file = tmp_path / "qa.jsonl"
    told = pd.DataFrame(ROWS).rename(columns={"prompt": "asked"})
    told.to_json(file, orient="records", lines=True)
    options = json.dumps({"samples": 30, "most_tokens": 8, "proposal": proposal})
    asked = ["--model", tmp_path / "model", "--prompts", file, "--fields", "asked", "answer"]
    asked += ["--options", options, "--seed", 1]
    shards = []
    for first, number in ((0, 3), (3, 3), (6, 3)):
        shards.append(tmp_path / f"{first}.parquet")
        cut = ["--instances", first, number, "--output", shards[-1]]
        run_job(monkeypatch, draw_job, *asked, *cut)
    parts = [pd.read_parquet(path) for path in shards]
    assert [part["instance"].nunique() for part in parts] == [3, 2, 0]
    pd.testing.assert_frame_equal(pd.concat(parts[:2], ignore_index=True), expected)
    names = ("estimates", "curves", "diagnostics", "sums")
    outputs = [word for name in names for word in (f"--{name}", tmp_path / f"{name}.parquet")]
    how = {"subsets": 5, "bootstrap": 5}
    given = ["--names", "mine", proposal, "--options", json.dumps(how), "--seed", 3]
    run_job(monkeypatch, reduce_job, "--thoughts", *shards, *given, *outputs)
    found = {name: pd.read_parquet(tmp_path / f"{name}.parquet") for name in names}
    named = expected.assign(model="mine", proposal=proposal)  # which key the resamples
    command = beyond_perplexity.estimate(thoughts=named, options=how, seed=3)
    plain = ["method", "aggregation", "value", "low", "high", "bound", "k_hat_median", "ess_median"]
    pd.testing.assert_frame_equal(
        found["estimates"][plain], command.table[plain], check_dtype=False
    )
    pd.testing.assert_series_equal(found["curves"]["mean"], command.table_of("curves")["mean"])
    (row,), said = found["sums"].to_dict("records"), command.summary["thoughts"]
    assert (row["model"], row["proposal"], row["n_prompts"]) == ("mine", proposal, 5)
    assert (row["n_silent"], row["n_no_greedy"]) == (len(said["silent"]), said["no_greedy"])
    for name in ("no_thought", "greedy", "cut", "all_cut_right"):
        assert row[name] == said[name]
    (bounds,) = said["bounds"]
    assert [row[f"any_length_{k}"] for k in ("low", "high")] == [bounds[k] for k in ("low", "high")]
    # What a job cannot use is one line.
    file.write_text('{"asked": "x"}\n')
    with pytest.raises(InputError, match=r"qa\.jsonl: line 1: field 'answer' is missing"):
        run_job(monkeypatch, draw_job, *asked, *cut)
    other = drawn(reasoner, tmp_path / "other", proposal=proposal, seed=9).summary["files"][0]
    with pytest.raises(InputError, match="has thoughts of another model, or of other options"):
        run_job(monkeypatch, reduce_job, "--thoughts", shards[0], other, *given, *outputs)


def test_files_of_thoughts_are_weights_and_faults_are_one_line(tmp_path):
    """Oracle: weights by hand."""
    rows = pd.DataFrame(
        {
            "instance": [0, 0, 1, 1],
            "sample": [0, 1, 0, 1],
            "n_tokens": [2, 2, 3, 3],
            "log_p_answer": [-1.0, -3.0, -2.0, -math.inf],
            "log_p_thought": [-4.0, -5.0, -6.0, -7.0],
            "log_q_thought": [-4.5, -4.0, -6.0, -7.5],
            "cut": [0, 0, 0, 1],
        }
    )
    path = tmp_path / "thoughts.csv"
    rows.to_csv(path, index=False)
    sums = sum_thoughts([ThoughtFile(path)])
    first = (math.exp(-0.5) + math.exp(-4)) / 2
    second, lost = math.exp(-2) / 2, math.exp(0.5) / 2
    assert sums.cut == pytest.approx(lost / 2)
    assert sums.all_cut_right == pytest.approx(
        math.exp(-(math.log(first) + math.log(second + lost)) / 5)
    )
    found = beyond_perplexity.estimate(thoughts=rows, options={"bootstrap": 10})
    value = found.table.query("method == 'importance_sampling' and aggregation == 'instance'")
    expected = math.exp(-(math.log(first) + math.log(second)) / 5)
    assert value["value"].iloc[0] == pytest.approx(expected)
    silent = rows.assign(log_p_answer=[-1, -2, -math.inf, -math.inf])
    said = beyond_perplexity.estimate(thoughts=silent).text
    assert "No thought of 1 of 2 prompts gives the answer a probability (instance 1)" in said
    cases = {
        "weights: give files of weights or of thoughts": {},
        "log_p_answer is 0.5, expected nats": {"thoughts": rows.assign(log_p_answer=0.5)},
        "has log_p_thought and no log_q_thought": {"thoughts": rows.drop(columns="log_q_thought")},
        "cut is 2, expected 0 or 1": {"thoughts": rows.assign(cut=2)},
        "log_p_answer is -1.0?, expected -inf, as the thought": {"thoughts": rows.assign(cut=1)},
        "column 'log_p_answer' is missing": {"thoughts": rows.drop(columns="log_p_answer")},
    }
    for message, given in cases.items():
        with pytest.raises(InputError, match=message):
            beyond_perplexity.estimate(**given)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    huggingface_models.make_gpt2(folder)
    return str(folder)


def served(server, out, **options):
    given = {"samples": 20, "most_tokens": 6, "end_of_thought": ">", "shard_size": 2}
    given |= {"prompts": ROWS[:3], "out": out, "concurrency": 4, **options}
    return beyond_perplexity.thoughts(url=server.url, **given)


@pytest.mark.parametrize(("proposal", "chats"), [("own", True), ("mixture", True), ("own", False)])
def test_thoughts_of_a_server_are_scored_as_they_were_drawn(gpt2, tmp_path, proposal, chats):
    """Oracle: transformers' logits of the prompt, and of each thought that the server drew."""
    plain = {} if chats else {"end": huggingface_models.END}
    plain |= {"shown": "{prompt} {answer}"} if proposal == "mixture" else {}
    with FakeServer(gpt2, "vllm", chats=chats) as server:
        table = served(server, tmp_path / "a", proposal=proposal, **plain).table
        asked, model = server.asked, server.model

        def ask(text):
            said = {"messages": [{"role": "user", "content": text}], "add_generation_prompt": True}
            return server.tokens_of(said if chats else {"prompt": text})

        begun, shown = ask("the cat 1"), ask("the cat 1 the low")
        answer = [*server.encode("\n\n" * chats + "the low")[1:], 0]
        empty = server.encode(";>" if chats else ">")[1:]
        (tmp_path / "a" / "00001.parquet").unlink()
        again = served(server, tmp_path / "a", proposal=proposal, **plain).table
    pd.testing.assert_frame_equal(again, table)

    def log_p(ids, last):
        with torch.no_grad():
            rows = model(torch.tensor([ids[:-1]])).logits[0].double().log_softmax(-1)
        return float(rows.gather(1, torch.tensor(ids[1:])[:, None])[-last:].sum())

    own = table[table["instance"] == 1]
    assert own["log_p_no_thought"].iloc[0] == pytest.approx(
        log_p([*begun, *empty, *answer], len(answer)), abs=1e-4
    )
    texts = [one["prompt"] for one in asked if not one.get("return_tokens_as_token_ids")]
    texts = [one for one in texts if isinstance(one, list) and one[: len(begun)] == begun]
    thoughts = [one[len(begun) :] for one in texts]
    ended = [one[: -len(answer)] for one in thoughts if one[-len(answer) :] == answer]
    found = {}
    for one in [*ended, *(one for one in thoughts if one not in ended)]:
        right = log_p([*begun, *one, *answer], len(answer)) if one in ended else -math.inf
        found[log_p([*begun, *one], len(one))] = right, log_p([*shown, *one], len(one))
    assert own["cut"].sum() > 0
    assert np.isfinite(own["log_p_answer"]).sum() > 0
    for row in own.itertuples():
        assert row.n_tokens == len(answer)
        near = min(found, key=lambda value: abs(value - row.log_p_thought))
        assert row.log_p_thought == pytest.approx(near, abs=1e-4)
        assert row.log_p_answer == pytest.approx(found[near][0], abs=1e-4)
        log_q = near if proposal == "own" else np.logaddexp(near, found[near][1]) - math.log(2)
        assert row.log_q_thought == pytest.approx(log_q, abs=1e-4)
    assert all(len(one) <= 6 + len(answer) for one in thoughts)


def test_servers_that_cannot_draw_thoughts_say_why(gpt2, tmp_path):
    cases = [
        ({"style": "llama-cpp-python"}, {}, "does not say the ids of a text"),
        (
            {"style": "vllm", "faults": ("strings",)},
            {"end": huggingface_models.END},
            "as they were drawn",
        ),
        ({"style": "vllm", "faults": ("generated",)}, {}, "cannot score a text|generates alone"),
        ({"style": "vllm"}, {}, "end: is missing; name the token that ends"),
        ({"style": "vllm", "chats": True}, {"most_tokens": 60}, "more than the model's context"),
        (
            {"style": "vllm", "chats": True, "faults": ("top_k",)},
            {"samples": 60},
            "it does not draw from the distribution that it scores by",
        ),
    ]
    for place, (kind, options, message) in enumerate(cases):
        with FakeServer(gpt2, **kind) as server, pytest.raises(InputError, match=message):
            served(server, tmp_path / str(place), **options)
    with pytest.raises(InputError, match="model: is missing; give one, or the url"):
        beyond_perplexity.thoughts(ROWS, tmp_path / "b")


def test_draws_that_are_right_are_hardly_ever_refused():
    """Oracle: Freedman's inequality; of 2,000 streams none is refused, of a top 5 of 300 all."""
    random = np.random.default_rng(1)
    rows = random.dirichlet(np.full(300, 0.2), 400)
    most = np.log(rows.max(1))
    for cut, refused in ((300, 0), (5, 20)):
        kept = np.where(rows >= np.sort(rows, 1)[:, [-cut]], rows, 0)
        kept /= kept.sum(1, keepdims=True)
        count = 0
        for _ in range(2000 if cut == 300 else 20):
            drawn = (kept.cumsum(1) < random.random((400, 1))).sum(1).clip(max=299)
            check = DrawCheck()
            check.add(np.log(rows[np.arange(400), drawn]), most)
            try:
                check.refuse("url")
            except InputError:
                count += 1
        assert count == refused
