"""Thoughts by transformers alone: generated one by one, then scored with the answer in a pass."""

import torch
from transformers import PhiConfig, PhiForCausalLM

from beyond_perplexity.models.huggingface_model import HuggingFace, describe_config

OURS = 3  # ids of this package are the model's, and so many more


def small_reasoner(vocabulary=300, width=32, layers=2, mean_length=8, context=128, seed=0):
    """Make a random Phi that ends a thought, with id 2, after so many tokens on average."""
    sizes = {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers}
    sizes |= {"num_attention_heads": 4, "vocab_size": vocabulary}
    torch.manual_seed(seed)
    external = PhiForCausalLM(PhiConfig(max_position_embeddings=context, **sizes)).eval()
    external.lm_head.bias.data[2] = torch.log(torch.tensor(vocabulary / mean_length))
    # Every row of its output once: its first is no beginning, its second is our end of a text.
    how = vocabulary + OURS, describe_config(external.config), (0, 1, None), [0, 2, OURS + 1]
    return external, HuggingFace(*how, external).eval()


def to_ours(ids):
    """Return the ids of this package, a list, of the model's."""
    return [1 if one == 1 else one + OURS for one in ids.tolist()]


def generate(external, prompt, marker, most_tokens):
    """Draw one thought: its ids, (n,), which end with the marker or are as many as may be."""
    ids = external.generate(
        prompt[None],
        attention_mask=torch.ones_like(prompt)[None],
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=most_tokens,
        eos_token_id=[marker, 1],
        pad_token_id=1,
    )
    return ids[0, len(prompt) :]


@torch.no_grad()
def score(external, prompt, thought, answer):
    """Return log p of a thought given its prompt, and of an answer after both, in nats."""
    ids = torch.cat([prompt, thought, answer])
    rows = external(ids[None, :-1]).logits[0].double().log_softmax(-1)
    found = rows.gather(1, ids[1:, None])[len(prompt) - 1 :, 0]
    return float(found[: len(thought)].sum()), float(found[len(thought) :].sum())


def draw_by_loop(external, prompt, answer, marker, most_tokens, samples):
    """Draw and score samples one by one: a list of (thought, log p of it, log p of the answer)."""
    found = []
    for _ in range(samples):
        thought = generate(external, prompt, marker, most_tokens)
        found.append((thought, *score(external, prompt, thought, answer)))
    return found
