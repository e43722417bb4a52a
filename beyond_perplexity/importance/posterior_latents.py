"""The latents that a model believes in, and those of a proposal, against the annotation, as spans.

And models without latent variables on the instances that a latent model is weighed on. A mean under
p(z | x) is over weighted samples: particles of sequential Monte Carlo where the model goes word by
word, else importance samples; both are consistent, not unbiased, and ``effective`` says how many
count. A run also estimates p(x_1, ..., x_t) after each word t, so that log p̂(x) is exactly the sum
of what its words and its end add. K particles or samples, W entries of a row of z, T words.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from beyond_perplexity.corpus.latent_instances import TOKENS, Instance, InstanceBatch, document_of
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.draw_files import Columns
from beyond_perplexity.importance.model_pair import LatentRows, Pair, draw_latents, score_latents
from beyond_perplexity.importance.particle_runs import FilterSetting, numbers_needed, smc_paths
from beyond_perplexity.importance.ways_to_draw import PosteriorOptions
from beyond_perplexity.invariant_tensors import uniforms
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.families import find_row
from beyond_perplexity.models.latent import PADDING, LatentModel
from beyond_perplexity.models.likelihoods import check_window, cut_windows, score_windows
from beyond_perplexity.schemas.corpora import DOCUMENTS
from beyond_perplexity.storage.provenance import group_key
from beyond_perplexity.storage.shards import read_batches
from beyond_perplexity.vocabulary import UNK, Vocabulary

Range = tuple[int, int]  # words from the first to before the second
OF_MENTIONS, OF_TREES = "mentions", "trees"


class SpanCounts(NamedTuple):
    """Spans of the annotation, of the latents, and of both: exactly the same words."""

    annotated: int
    found: int
    matched: int
    same_entity: int  # matched mentions with the right entity; 0 for trees


def structure_of(described: Mapping[str, Any]) -> str:
    """Return `OF_MENTIONS` or `OF_TREES`: what an outline of `LatentModel` is of."""
    return OF_MENTIONS if "mentions" in described else OF_TREES


def entities_by_span(described: Mapping[str, Any]) -> dict[Range, Hashable]:
    """Return what makes the entity of each mention, or of each phrase of a tree nothing.

    An entity with a name is its name. One that is a number is the span of the last mention before
    it of the same entity, or None where it is new: so numbers of two annotations need not agree. Of
    a tree phrases of several words count, but not the whole sentence; a phrase of one child is that
    child.
    """
    if structure_of(described) == OF_TREES:
        return dict.fromkeys(tree_spans(described["tree"]))
    found: dict[Range, Hashable] = {}
    last: dict[Hashable, Range] = {}
    for mention in sorted(described["mentions"], key=lambda one: one["start"]):
        span, entity = (mention["start"], mention["end"]), mention["entity"]
        found[span] = entity if isinstance(entity, str) else last.get(entity)
        last[entity] = span
    return found


def words_inside(described: Mapping[str, Any], words: int) -> np.ndarray | None:
    """Return which words are inside mentions of an outline, bool, (T,); None of a tree."""
    if structure_of(described) == OF_TREES:
        return None
    inside = np.zeros(words, bool)  # (T,)
    for mention in described["mentions"]:
        inside[mention["start"] : mention["end"]] = True
    return inside


def tree_spans(tree: str) -> set[Range]:
    """Return the phrases of a tree in brackets over ``#0 #1 ...``; see `entities_by_span`."""
    starts: list[int] = []
    spans: set[Range] = set()
    words, before = 0, ""
    for part in tree.replace("(", " ( ").replace(")", " ) ").split():
        if part == "(":
            starts.append(words)
        elif part == ")":
            spans.add((starts.pop(), words))
        elif before != "(":  # else it is a label
            words += 1
        before = part
    return {span for span in spans if 1 < span[1] - span[0] < words}


def count_spans(annotated: Mapping[Range, Hashable], found: Mapping[Range, Hashable]) -> SpanCounts:
    """Count what annotation and latents have in common, both from `entities_by_span`."""
    matched = annotated.keys() & found.keys()
    same = sum(annotated[span] == found[span] for span in matched)
    return SpanCounts(len(annotated), len(found), len(matched), same)


POSTERIOR_SOURCE, PROPOSAL_SOURCE = "posterior", "proposal"


class WeightedLatents(NamedTuple):
    """Samples of an instance's latents, int64, (K, W), with shares, float64, (K,), that add up to
    1, or are all 0 where p̂ is 0; see `ParticlePaths.prefixes`, (T + 1,)."""

    latents: Tensor
    shares: Tensor
    prefixes: Tensor | None = None


def _shares(log_weights: Tensor) -> Tensor:
    """Normalize weights given by their logarithms, (K,)."""
    return log_weights.softmax(0).nan_to_num(0.0)


def expected_counts(
    model: LatentModel, instance: Instance, annotated: Mapping[str, Any], held: WeightedLatents
) -> np.ndarray:
    """Average the fields of `SpanCounts` over latents, float64, (4,); NaN where the instance has no
    annotation that the model could have, or p̂ is 0."""
    unknown = structure_of(annotated) == OF_TREES and not annotated["tree"]
    if unknown or not held.shares.any():
        return np.full(len(SpanCounts._fields), np.nan)
    truth = entities_by_span(annotated)
    unique, inverse = torch.unique(held.latents.cpu(), dim=0, return_inverse=True)  # (N, W), (K,)
    shares = np.bincount(inverse.numpy(), held.shares.cpu().numpy(), len(unique))  # (N,)
    counts = [count_spans(truth, entities_by_span(model.outline(instance, row))) for row in unique]
    means = shares @ np.array(counts, np.float64)  # (4,)
    return np.array([len(truth), *means[1:]])


def _decomposed(inside: np.ndarray | None, prefixes: Tensor | None) -> dict[str, float | None]:
    """Say what words inside mentions, (T,), and the end add to log p̂ of a run."""
    names = ("log_likelihood", "log_likelihood_inside", "log_likelihood_end")
    found: dict[str, float | None] = dict.fromkeys(names)
    if prefixes is None or not torch.isfinite(prefixes).all():
        return found
    added = np.diff(prefixes.cpu().numpy(), prepend=0.0)  # (T + 1,)
    found["log_likelihood"], found["log_likelihood_end"] = float(prefixes[-1]), float(added[-1])
    if inside is not None:
        found["log_likelihood_inside"] = float(added[:-1][inside].sum())
    return found


def _sources(
    pair: Pair, instance: Instance, options: PosteriorOptions
) -> Iterator[tuple[str, str, WeightedLatents]]:
    """Give latents of the posterior and of the proposal, after their source and method."""
    count, degrees, batch = options.samples, options.temperature, pair.batch(instance)
    blocks = draw_latents(pair, [instance], range(count), degrees)
    drawn = torch.cat([rows.latents for _, rows in blocks])  # (K, W): the first of the weighted
    if pair.is_sequential:
        purpose = f"{pair.purpose}/posterior/{degrees}/{instance.instance_id}"
        items, draws = torch.arange(count + 1), numbers_needed(pair.proposal, batch)
        numbers = uniforms(pair.seed, purpose, items, 0, draws, pair.model.device)  # (K + 1, U)
        setting = FilterSetting(pair.model, pair.proposal, batch, count, degrees)
        latents, log_weights, _, prefixes = smc_paths(setting, numbers[None])
        held = WeightedLatents(latents[0], _shares(log_weights[0]), prefixes[0])
        yield POSTERIOR_SOURCE, "smc", held
    else:
        found, log_p, log_q = score_latents(pair, LatentRows.of_one(batch, drawn), [degrees] * 2)
        shares = _shares((log_p - log_q[:, 0])[found.inverse])  # (K,)
        yield POSTERIOR_SOURCE, "importance_sampling", WeightedLatents(drawn, shares)
    even = torch.full((count,), 1 / count, dtype=torch.float64)  # (K,)
    yield PROPOSAL_SOURCE, "samples", WeightedLatents(drawn, even)


@torch.inference_mode()
def compare_latents(
    pair: Pair, instances: Iterable[Instance], options: PosteriorOptions
) -> Iterator[Columns]:
    """Hold the latents of the posterior and of the proposal against the annotation of instances."""
    model, _, proposal = pair.purpose.partition("/")
    for instance in instances:
        batch, words = pair.batch(instance), len(instance.arrays[TOKENS])
        annotated = pair.model.outline(instance, pair.model.annotated(batch)[0].cpu())
        inside = words_inside(annotated, words)
        common = {"model": model, "proposal": proposal, "instance_id": instance.instance_id}
        common |= {"n_words": words, "n_tokens": int(pair.model.n_tokens(batch)[0])}
        common |= {"n_inside": None if inside is None else int(inside.sum())}
        common |= {"structure": structure_of(annotated)}
        rows = []
        for source, method, held in _sources(pair, instance, options):
            means = expected_counts(pair.model, instance, annotated, held)
            row = {"source": source, "method": method, "n_samples": len(held.latents)}
            row["effective"] = float(1 / max(held.shares.square().sum().item(), 1e-300))
            row |= dict(zip(SpanCounts._fields, means.tolist(), strict=True))
            rows.append(common | row | _decomposed(inside, held.prefixes))
        yield {name: np.array([row[name] for row in rows], object) for name in rows[0]}


# Models without latent variables stand on the very instances that a latent model is weighed on: a
# reader can tell what latent variables bring only from the same text, the same vocabulary and the
# same T. An instance is scored alone, after ``<s>``: as the latent model reads it. T counts the end
# where the latent model's T does, and log p then has it; else neither has.


@torch.inference_mode()
def plain_log_probs(model: LanguageModel, ids: np.ndarray) -> np.ndarray:
    """Return ln p of each word and of the end of one text (T,), read alone so that no other changes
    a bit of it: float64, (T + 1,)."""
    windows = cut_windows(0, ids, *check_window(model, None, None))
    return np.concatenate([part for one in windows for part in score_windows(model, [one])])


@runtime_checkable
class DeterministicModel(Protocol):
    """A latent model that has a sampler without latents, too."""

    vocabulary_size: int

    def deterministic_log_probs(self, batch: InstanceBatch) -> np.ndarray:
        """Return ln p of each word and of the end of one text by that sampler, (T + 1,)."""


def score_beside(
    latent: LatentModel, model: LanguageModel | DeterministicModel, instances: Iterable[Instance]
) -> Iterator[dict[str, Any]]:
    """Score a latent model's instances under another without latents, or its own sampler without.

    Yields columns of schema ``instance_scores`` but for the names and the group. The latent model
    says what T counts, which must be words and at most one end, and which words are in mentions.
    Classes of unknown words are ``<unk>``.
    """
    for instance in instances:
        words = np.asarray(instance.arrays[TOKENS])  # (T,)
        words = np.where(words < model.vocabulary_size, words, UNK)
        batch = InstanceBatch.of([instance])
        counted = int(latent.n_tokens(batch)[0])
        if counted - len(words) not in (0, 1):
            fault = f"the latent model counts {counted} tokens of {len(words)} words"
            where = f"instance {instance.instance_id}"
            raise InputError(f"{where}: {fault}: no model can be held against it")
        if isinstance(model, LanguageModel):
            scores = plain_log_probs(model, words)  # (T + 1,)
        else:
            scores = model.deterministic_log_probs(batch)  # (T + 1,)
        described = latent.outline(instance, latent.annotated(batch.to(latent.device))[0])
        inside = words_inside(described, len(words))  # (T,)
        row: dict[str, Any] = {"instance_id": instance.instance_id, "n_words": len(words)}
        row["n_tokens"] = counted
        row |= {"n_unknown": int((words == UNK).sum()), "n_inside": None}
        row |= {"log_likelihood": float(scores[:counted].sum()), "log_likelihood_inside": None}
        if inside is not None:
            row["n_inside"] = int(inside.sum())
            row["log_likelihood_inside"] = float(scores[:-1][inside].sum())
        yield row | {"log_likelihood_end": float(scores[-1])}


def group_instances(
    family: object, instance_ids: Collection[int], documents: str, split_unit: str
) -> dict[int, int]:
    """Return the `group_key` of each instance, of its document or, if pages were split, of its
    page; the family's row says what an instance is."""
    unit = find_row(family).unit
    wanted = {number: document_of(number, unit) for number in instance_ids}
    held = set(wanted.values())
    titles: dict[int, str] = {}
    if split_unit == "page":
        for batch in read_batches(documents, DOCUMENTS, ["doc_id", "title"]):
            rows = zip(batch["doc_id"].to_pylist(), batch["title"].to_pylist(), strict=True)
            titles.update((number, title) for number, title in rows if number in held)
    return {one: group_key(titles.get(doc) or None, doc) for one, doc in wanted.items()}


LOOKED_AT = 40_000  # words of the split
UNKNOWN_COST = 5.0
FEWEST_WORDS, MOST_WORDS, MOST_OF_A_TREE = 7, 60, 12
STRIDE = 20  # words from one window of a long document to the next
DOCUMENTS_TRIED = 40  # documents in which the proposal looks for mentions
Described = dict[str, Any]


class _Choice(NamedTuple):
    """A part of an instance that could be shown: words from `start`, and how much is to see."""

    worth: float
    instance: Instance
    start: int
    described: Described


def _richness(described: Described) -> float:
    """Say how much there is to see: brackets of a tree, or mentions and re-mentions."""
    if described.get("tree"):
        return float(str(described["tree"]).count("("))
    entities = [mention["entity"] for mention in described["mentions"]]
    return len(entities) + 5.0 * (len(entities) - len(set(entities)))


def _window(described: Described, start: int) -> Described:
    """Keep the mentions that lie in `MOST_WORDS` words from a position on, and count from there."""
    kept = [
        {**mention, "start": mention["start"] - start, "end": mention["end"] - start}
        for mention in described["mentions"]
        if mention["start"] >= start and mention["end"] <= start + MOST_WORDS
    ]
    return {"mentions": kept}


def _choices(
    pair: Pair, instances: Iterable[Instance], vocabulary: Vocabulary
) -> Iterator[_Choice]:
    """List what could be shown: short sentences under trees, windows of documents."""
    seen = 0
    for instance in instances:
        words = _known(instance, vocabulary)
        seen += len(words)
        if seen > LOOKED_AT:
            return
        if len(words) < FEWEST_WORDS:
            continue
        described = pair.model.readable(instance, pair.model.annotated(pair.batch(instance))[0])
        if described.get("tree"):
            windows = [(0, described)] if len(words) <= MOST_OF_A_TREE else []
        elif "mentions" in described:
            starts = range(0, max(1, len(words) - MOST_WORDS + STRIDE), STRIDE)
            windows = [(start, _window(described, start)) for start in starts]
        else:
            continue  # a tree that the model cannot have
        for start, part in windows:
            shown = words[start : start + MOST_WORDS]
            unknown = np.count_nonzero(shown == UNK) / len(shown)
            worth = _richness(part) / len(shown) - UNKNOWN_COST * unknown
            yield _Choice(worth, instance, start, part)


def _most_probable(pair: Pair, choice: _Choice) -> Described | None:
    """Describe the most probable latent under the proposal, where a beam finds one."""
    found = pair.proposal.beam(pair.batch(choice.instance), 10)[0]  # (10, W)
    found = found[(found != PADDING).any(1)]  # (k, W)
    if not len(found):
        return None
    described = pair.model.readable(choice.instance, found[0])
    return _window(described, choice.start) if "mentions" in described else described


def _spans(described: Described | None) -> set[Range]:
    """Return the words of each mention; none of a tree, or of nothing."""
    held = (described or {}).get("mentions") or ()
    return {(mention["start"], mention["end"]) for mention in held}


def _known(instance: Instance, vocabulary: Vocabulary) -> np.ndarray:
    """Return the words with ``<unk>`` for classes of unknown words, int64, (T,)."""
    words = instance.arrays[TOKENS]
    return np.where(words < vocabulary.size, words, UNK)


@torch.inference_mode()
def describe(
    pair: Pair, name: str, instances: Iterable[Instance], vocabulary: Vocabulary
) -> list[Described]:
    """Choose an instance, or a part of a long document, with much to see; describe its latents.

    `LatentModel.readable` says the annotation, then the most probable latent that a beam of 10
    finds. Of the `DOCUMENTS_TRIED` documents with most to see in their first `LOOKED_AT` words, it
    is the one in which the proposal finds most mentions of the annotation, with `MOST_WORDS` words
    at most. Empty when no tree has `FEWEST_WORDS` to `MOST_OF_A_TREE` words, or no document the
    fewest.
    """
    candidates: dict[int, _Choice] = {}
    for choice in sorted(_choices(pair, instances, vocabulary), key=lambda one: -one.worth):
        candidates.setdefault(choice.instance.instance_id, choice)
        if len(candidates) == DOCUMENTS_TRIED or choice.described.get("tree"):
            break
    if not candidates:
        return []
    beams = [(one, _most_probable(pair, one)) for one in candidates.values()]
    best, most_probable = max(beams, key=lambda one: len(_spans(one[0].described) & _spans(one[1])))
    words = _known(best.instance, vocabulary)
    shown = words[best.start : best.start + MOST_WORDS]
    tokens = vocabulary.decode([np.array([word]) for word in shown])
    end = best.start + len(shown)
    part = f", words {best.start + 1} to {end} of {len(words)}" if len(shown) < len(words) else ""
    common = {"model": name, "instance_id": best.instance.instance_id, "tokens": tokens}
    titled = {"annotation": best.described, "most probable under the proposal": most_probable}
    return [{**common, "title": f"{who}{part}", **held} for who, held in titled.items() if held]
