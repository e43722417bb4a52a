"""Masked language models of Hugging Face as distributions of texts: words are shown in any order.

A masked model of transformers (BERT, ...) gets the distribution of `masked_diffusion` over texts of
its own tokens, which is not the pseudo-likelihood, Π_i p(x_i | all others), whose sum over texts is
not 1 (Salazar et al. 2020). It reads a text between its tokenizer's special tokens with its mask in
every hidden position, so that it knows n; what it says is normalized over the tokens that a text
can have. A text that does not fit into its positions has no probability, and p(n) is counted on the
training split, up to the longest that fits.

B texts, T tokens, N hidden ones, D width, V ids; of the ids 0 hides a token, and 1 is none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedModel

from beyond_perplexity.corpus.latent_instances import LATENTS, TOKENS, CorpusFiles, Instance
from beyond_perplexity.errors import InputError
from beyond_perplexity.models import huggingface_bring as bringing
from beyond_perplexity.models.huggingface_model import context_length, describe_config
from beyond_perplexity.models.huggingface_vocabulary import HuggingFaceVocabulary
from beyond_perplexity.models.latents.masked_diffusion import MASK, MaskedDiffusion
from beyond_perplexity.models.latents.masked_diffusion_lengths import LengthModel, bin_lengths
from beyond_perplexity.models.registry import check_finite
from beyond_perplexity.options import Length, Limited, parse_options
from beyond_perplexity.schemas.corpora import DOCUMENTS, RAW
from beyond_perplexity.storage.inputs import told
from beyond_perplexity.storage.provenance import content_hash
from beyond_perplexity.storage.shards import read_batches
from beyond_perplexity.vocabulary import N_SPECIAL, UNK, Vocabulary

_ASKED = "masked models that read a text whole are used, such as BERT, RoBERTa and ModernBERT"
NEVER = -1e9  # a logit whose exponential is 0; an infinite one would make entropies NaN


@dataclass(frozen=True)
class HuggingFaceMaskedOptions(bringing.HuggingFaceOptions, Limited):
    """Where a masked model comes from, and of which texts it is asked.

    maximum_words: Documents of more tokens are not evaluated: a sample of n tokens takes n passes
        over all.
    count_eos: T counts the end of a text, and log p has its number of tokens; without it p is of
        texts of a given length.
    """

    maximum_words: Length = 60
    count_eos: bool = True


class WindowLengths(LengthModel):
    """The distribution of the lengths that fit into a window."""

    def __init__(self, counts: Iterable[int], window: int) -> None:
        super().__init__(counts)
        self._window = window
        self._inside = float(np.exp(super().log_prob(np.arange(window + 1))).sum())

    def log_prob(self, lengths: np.ndarray) -> np.ndarray:
        """Return log p of lengths; −inf beyond the window."""
        found = super().log_prob(lengths) - np.log(self._inside)
        return np.where(lengths > self._window, -np.inf, found)

    def draw(self, uniforms: np.ndarray) -> np.ndarray:
        """Draw a length for each number in [0, 1), which rise together."""
        return np.minimum(super().draw(uniforms * self._inside), self._window)


class _NoLayer(nn.Identity):
    """What stands in the place of an output layer, whose bias some models take."""

    weight = bias = None


class HuggingFaceMasked(MaskedDiffusion):
    """The model; see the module.

    `transformers` is its configuration, `around` the special tokens before and behind a text,
    `window` the most tokens between them, `special` its ids of the mask and of the unknown token
    (None: it has none), `impossible` our ids that no text has.
    """

    family = "huggingface-masked"
    options_kind: ClassVar[type[Any]] = HuggingFaceMaskedOptions
    shapes: Mapping[str, Any] = {"lengths": []}
    options: HuggingFaceMaskedOptions  # type: ignore[assignment]
    theirs: Tensor  # their ids of ours, (V,)
    impossible: Tensor  # columns of the logits

    def build(self) -> None:
        """Make the layers; the output layer is taken out, as hidden tokens alone need it."""
        settings = AutoConfig.for_model(**self.shapes["transformers"])
        network = AutoModelForMaskedLM.from_config(settings, dtype=torch.float32)
        self.lengths = WindowLengths(self.shapes["lengths"], self.shapes["window"])
        self.linear, self.body = network.get_output_embeddings(), network
        network.set_output_embeddings(_NoLayer())
        mask, unknown = self.shapes["special"]
        own = range(self.vocabulary_size - N_SPECIAL)
        theirs = torch.tensor([mask, mask, mask if unknown is None else unknown, *own])  # (V,)
        without = torch.tensor(self.shapes["impossible"])
        self.register_buffer("theirs", theirs, persistent=False)
        self.register_buffer("impossible", without[without >= UNK] - UNK, persistent=False)

    @property
    def t_definition(self) -> str:
        """What T counts, in words."""
        return "tokens of its own and the end" if self.counts_end else "tokens of its own"

    @classmethod
    def create(
        cls, architecture: Mapping[str, Any], vocabulary: Vocabulary, corpus: CorpusFiles
    ) -> Self:
        """Refuse to make one without a model of transformers."""
        raise InputError(f"{cls.family}: comes trained; name its folder or its name on the hub")

    def with_lengths(self, corpus: CorpusFiles, vocabulary: Vocabulary) -> HuggingFaceMasked:
        """Return the model that knows how long the texts of the training split are."""
        texts = self.instances(corpus, "train", vocabulary)
        counts = bin_lengths(len(text.arrays[TOKENS]) for text in texts)
        self.shapes = {**self.shapes, "lengths": counts}
        self.lengths = WindowLengths(counts, self.shapes["window"])
        return self

    def instances(
        self, corpus: CorpusFiles, split: str, vocabulary: Vocabulary
    ) -> Iterator[Instance]:
        """Read the documents, before cleaning, that are not too long."""
        most = min(self.options.maximum_words, self.shapes["window"])
        raw = read_batches(corpus.documents.with_name("raw.parquet"), RAW, ["doc_id", "text"])
        texts = (row for batch in raw for row in batch.to_pylist())
        for batch in read_batches(corpus.documents, DOCUMENTS, ["doc_id", "split"]):
            for document, text in zip(batch.to_pylist(), texts, strict=False):
                if document["doc_id"] != text["doc_id"]:
                    wrong = f"{corpus.documents}: is not of the same extraction as raw.parquet"
                    raise InputError(f"{wrong}; extract the corpus again")
                if document["split"] != split:
                    continue
                tokens = vocabulary.encode([text["text"]])[0]  # (T,)
                if 0 < len(tokens) <= most:
                    arrays = {TOKENS: tokens, LATENTS: np.arange(len(tokens))}
                    yield Instance(document["doc_id"], arrays)

    def features(self, tokens: Tensor, visible: Tensor) -> Tensor:
        """Return the input of the output layer, (B, T, D), for tokens (B, T), some hidden;
        `visible`, bool, (B, T), are the positions that a text has, from 0 on."""
        before, behind = self.shapes["around"]
        width = min(tokens.shape[1], self.shapes["window"])  # no text goes on behind it
        inner = slice(len(before), len(before) + width)
        ids = tokens.new_zeros(len(tokens), inner.stop + len(behind))  # (B, S)
        ids[:, : len(before)] = torch.tensor(before, device=tokens.device)
        ids[:, inner] = self.theirs[tokens[:, :width]]
        place = torch.arange(ids.shape[1], device=tokens.device)  # (S,)
        ends = visible[:, :width].sum(1) + len(before)  # (B,)
        for number, token in enumerate(behind):
            ids[place == ends[:, None] + number] = token
        seen = place < ends[:, None] + len(behind)  # (B, S)
        found: Tensor = self.body(input_ids=ids, attention_mask=seen.long()).logits  # (B, S, D)
        return functional.pad(found[:, inner], (0, 0, 0, tokens.shape[1] - width))

    def word_logits(self, features: Tensor) -> Tensor:
        """Return the logits of all tokens, (N, V − 2), of features (N, D): of the ids from 2 on."""
        logits: Tensor = self.linear(features)  # (N, rows of the layer)
        return logits.index_select(1, self.theirs[UNK:]).index_fill_(1, self.impossible, NEVER)


def bring_masked(
    architecture: Mapping[str, Any], cleaning: Mapping[str, Any] | None, *, by_row: bool = False
) -> tuple[HuggingFaceMasked, HuggingFaceVocabulary, dict[str, Any]]:
    """Take a masked model as `huggingface_bring.bring` does another; `by_row` changes nothing."""
    options = parse_options(HuggingFaceMaskedOptions, architecture, "architecture")
    folder, revision = bringing.find_folder(options)
    weights = bringing.find_weights(folder)
    external = bringing.load_weights(folder, AutoModelForMaskedLM, "masked")
    check_finite(external, weights[0] if len(weights) == 1 else folder)
    tokenizer, settings = bringing.load_tokenizer(folder), external.config
    if settings.is_encoder_decoder:
        raise InputError(f"{folder}: has a decoder, which reads a text once more; {_ASKED}")
    if tokenizer.mask_token_id is None:
        raise InputError(f"{folder}: its tokenizer has no token that hides one (mask_token)")
    vocabulary, shapes = _vocabulary_of(folder, tokenizer, external, cleaning)
    model = HuggingFaceMasked(vocabulary.size, asdict(options), **shapes).eval()
    _take(model, external, folder)
    source = {"path": options.path, "revision": revision}
    hashes = {file.name: content_hash(file) for file in weights}
    return model, vocabulary, {**source, "weights": hashes}


def _vocabulary_of(
    folder: Path, tokenizer: Any, external: PreTrainedModel, cleaning: Mapping[str, Any] | None
) -> tuple[HuggingFaceVocabulary, dict[str, Any]]:
    """Return the tokenizer as a vocabulary, and the shapes of the model."""
    mask, unknown = tokenizer.mask_token_id, tokenizer.unk_token_id
    whole, bare = (tokenizer("a", add_special_tokens=own)["input_ids"] for own in (True, False))
    found = [k for k in range(len(whole)) if whole[k : k + len(bare)] == bare]
    if not found or not bare:
        raise InputError(
            f"{folder}: its tokenizer changes a text that it puts special tokens around"
        )
    around = [whole[: found[0]], whole[found[0] + len(bare) :]]
    known = tokenizer.backend_tokenizer.get_added_tokens_decoder()
    added = (index for index, token in known.items() if token.special)
    # Of our ids 0 hides a token and 1 is none, as no text has it.
    special = {"bos": mask, "eos": around[1][-1] if around[1] else mask, "unk": unknown}
    special["all"] = sorted({*added, *tokenizer.all_special_ids})
    rows, described = external.get_output_embeddings().weight.shape[0], tokenizer.backend_tokenizer
    try:
        vocabulary = HuggingFaceVocabulary(json.loads(described.to_str()), rows, special, cleaning)
    except InputError as error:
        raise InputError(f"{folder}: {error}") from error
    # Some count positions from behind the id that fills up.
    offset = getattr(getattr(external.base_model, "embeddings", None), "padding_idx", -1) + 1
    most = context_length(external.config) or tokenizer.model_max_length
    window = int(min(most - offset, tokenizer.model_max_length)) - sum(map(len, around))
    shapes = {"transformers": describe_config(external.config), "around": around, "window": window}
    return vocabulary, {**shapes, "special": [mask, unknown], "impossible": vocabulary.impossible}


@torch.no_grad()
def _take(model: HuggingFaceMasked, external: PreTrainedModel, folder: Path) -> None:
    """Give a model the weights of another one, and try that it says the same in any batch."""
    ids = torch.arange(model.vocabulary_size - UNK, device=model.theirs.device)
    possible = ids[~torch.isin(ids, model.impossible)] + UNK  # (N',)
    short, long = (possible[torch.linspace(0, len(possible) - 1, n).long()] for n in (5, 9))
    tokens = torch.stack([functional.pad(short, (0, 4)), long])  # (2, T)
    tokens[:, 1:4:2] = MASK
    visible = torch.arange(9) < torch.tensor([[5], [9]])  # (2, T)
    before, behind = map(torch.tensor, model.shapes["around"])
    alone = torch.cat([before, model.theirs[tokens[0, :5]], behind]).long()  # (S,)
    kinds = (TypeError, ValueError, RuntimeError, AttributeError, IndexError, KeyError)
    with told(f"{folder}: a {external.config.model_type} model cannot be used here", "", kinds):
        truth = external(input_ids=alone[None]).logits[0, len(before) :]  # (S', rows)
        model.linear.load_state_dict(external.get_output_embeddings().state_dict())
        external.set_output_embeddings(_NoLayer())
        model.body.load_state_dict(external.state_dict())
        found = model.word_logits(model.features(tokens, visible)[0, 1:4:2])  # (2, V - 2)
    wanted = truth[1:4:2, model.theirs[UNK:]].index_fill_(1, model.impossible, NEVER)  # (2, V - 2)
    worst = float((found - wanted).abs().max())
    if not worst <= bringing.PROBE_TOLERANCE * (1 + float(truth.abs().max())):
        wrong = f"beside a longer text its logits differ by {worst:.2g} from those of a text alone"
        raise InputError(f"{folder}: {wrong}; {_ASKED}")
