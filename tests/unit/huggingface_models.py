"""Tiny Hugging Face models with random weights and their tokenizers, made without a network."""

import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

TEXTS = [
    "the cat sat on the mat , and the dog sat on the log .",
    "the lowest of the low , the lower low ; the newest of the new .",
    "a rose is a rose is a rose , said the cat to the dog .",
]
CONTEXT = 64
END = "<|endoftext|>"


def make_tokenizer(folder, special, size=300):
    """Save a byte-level BPE tokenizer with special tokens by role; return how many ids it has."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=list(dict.fromkeys(special.values())),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    return int(tokenizer.get_vocab_size())


def save(folder, seed, kind, config):
    torch.manual_seed(seed)
    model = kind(config).eval()
    model.save_pretrained(folder)
    return model


def make_gpt2(folder, seed=0, dropout=0.0, context=CONTEXT):
    """Save a GPT-2 whose one special token opens and closes documents, and is unknown."""
    rows = make_tokenizer(folder, {"bos_token": END, "eos_token": END, "unk_token": END})
    dropped = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    sizes = {"n_positions": context, "n_embd": 32, "n_layer": 2, "n_head": 4}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    config = GPT2Config(vocab_size=rows, initializer_range=0.6, **sizes, **dropped, **ends)
    return save(folder, seed, GPT2LMHeadModel, config)


def make_llama(folder, seed=0):
    """Save a Llama with grouped heads, four special tokens and seven rows that are no token."""
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    rows = make_tokenizer(folder, special) + 7
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": rows}
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3}
    own = {"initializer_range": 0.6, "tie_word_embeddings": False, **sizes, **ends}
    config = LlamaConfig(max_position_embeddings=CONTEXT, **own)
    return save(folder, seed, LlamaForCausalLM, config)


MASKED = {name: f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}


def make_masked(folder, seed=0, roberta=False, rows=3, without=(), kind=None):
    """Save a masked model of pieces of words, with rows that are no token; return it."""
    special = {f"{name}_token": text for name, text in MASKED.items() if name not in without}
    # The library's trainer numbers pieces in another order each time.
    letters = sorted(set("".join(TEXTS)) - {" "})
    words = sorted({word for text in TEXTS for word in text.split() if len(word) > 1})
    pieces = [*special.values(), *letters, *(f"##{letter}" for letter in letters), *words]
    numbered = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(numbered, unk_token="[UNK]"))
    tokenizer.add_special_tokens(list(special.values()))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    around = [(text, tokenizer.token_to_id(text)) for text in ("[CLS]", "[SEP]")]
    single = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=around)
    tokenizer.post_processor = single
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 32, "max_position_embeddings": 20, "pad_token_id": 0}
    sizes |= {"vocab_size": tokenizer.get_vocab_size() + rows, "initializer_range": 0.5}
    config, plain = (
        (RobertaConfig, RobertaForMaskedLM) if roberta else (BertConfig, BertForMaskedLM)
    )
    return save(folder, seed, kind or plain, config(**sizes))


MAKERS = {"gpt2": make_gpt2, "llama": make_llama}
