"""The knowledge graph of a corpus: its embedding, its file, and documents that are linked to it.

Oracles: a step of TransE in NumPy, closed gradients; dictionaries of edges; codes by hand.
"""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from beyond_perplexity.corpus import latent_instances, normalization
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.latents import kglm, kglm_embedding, kglm_instances, kglm_tagger
from beyond_perplexity.random_streams import stream
from beyond_perplexity.schemas import corpora
from beyond_perplexity.schemas.corpora import KNOWLEDGE_GRAPH
from beyond_perplexity.storage.fingerprint import ROOT
from beyond_perplexity.storage.shards import write_shard
from beyond_perplexity.vocabulary import BPEVocabulary, ClosedVocabulary
from tests.unit.evaluator_oracles import check_refused
from tests.unit.small_corpora import write_documents

TEXTS = {"train": "alan turing was a mathematician . turing lived in london ."}
TEXTS |= {"valid": "london is big .", "test": "nothing is said here ."}
MENTIONS = [(0, 0, 2, "Alan Turing"), (0, 6, 7, "Alan Turing")]
MENTIONS += [(0, 9, 10, "London (city)"), (1, 0, 1, "London (city)")]
TRIPLES = [("Alan Turing", relation, "London (city)") for relation in ("Born in", "Died in")]
TRIPLES += [("London (city)", "Capital of", "England")]
ALIASES = [("Alan Turing", "A. M. Turing"), ("England", "Albion")]


def write_corpus(folder, mentions=MENTIONS, triples=TRIPLES, aliases=ALIASES):
    corpus = latent_instances.CorpusFiles.of(folder)
    write_documents(corpus.documents, [*TEXTS.values()], TEXTS)
    names = ("doc_id", "start", "end", "entity")
    rows = {name: [m[i] for m in mentions] for i, name in enumerate(names)}
    write_shard(corpus.mentions, corpora.MENTIONS, {**rows, "source": ["link"] * len(mentions)}, {})
    names = ("subject", "relation", "object")
    rows = {name: [t[i] for t in triples] for i, name in enumerate(names)}
    write_shard(corpus.knowledge_graph, KNOWLEDGE_GRAPH, rows, {})
    rows = {"entity": [e for e, _ in aliases], "alias": [a for _, a in aliases]}
    write_shard(corpus.aliases, corpora.ALIASES, rows, {})
    return corpus


def embed_files(corpus, **options):
    options = {"dimension": 4, "epochs": 3, **options}
    cleaning = normalization.Preprocessing()
    given = kglm_embedding.GraphOptions(**options)
    kglm_embedding.embed_corpus_graph(corpus, given, cleaning, 1, {}, corpus.graph)
    return kglm_instances.read_graph(corpus.graph)


def words():
    return ClosedVocabulary(sorted({w for text in TEXTS.values() for w in text.split()}), 0)


def test_a_step_equals_its_closed_form():
    draw = np.random.default_rng(0)
    entities = draw.normal(size=(5, 3)).astype(np.float32)
    relations = draw.normal(size=(2, 3)).astype(np.float32)
    true, false = [(0, 0, 1), (1, 1, 2), (0, 0, 2)], [(3, 0, 1), (1, 1, 0), (0, 0, 0)]
    options = kglm_embedding.TransEOptions(margin=0.7, learning_rate=0.1)
    found = torch.from_numpy(entities.copy()), torch.from_numpy(relations.copy())
    kglm_embedding.step(*found, torch.tensor(true), torch.tensor(false), options)

    def slope(triple):
        difference = entities[triple[0]] + relations[triple[1]] - entities[triple[2]]
        return difference / np.linalg.norm(difference), np.linalg.norm(difference)

    expected, moves = entities.copy(), relations.copy()
    violated = 0
    for good, bad in zip(true, false, strict=True):
        (up, near), (down, far) = slope(good), slope(bad)
        if 0.7 + near - far > 0:
            violated += 1
            for (s, r, o), direction in ((good, up), (bad, -down)):
                expected[s] -= 0.1 * direction
                expected[o] += 0.1 * direction
                moves[r] -= 0.1 * direction
    assert violated > 0
    for row in (0, 1, 2, 3):  # 4 is in no triple
        expected[row] /= np.linalg.norm(expected[row])
    np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(found[1].numpy(), moves, atol=1e-6)


def chain(count=6):
    """Make twelve entities: i leads to i + 6 by one relation, that to i + 1 by another."""
    places = np.arange(count)
    far = np.stack([places, np.zeros_like(places), places + count], 1)
    back = np.stack([places + count, np.ones_like(places), (places + 1) % count], 1)
    return np.concatenate([far, back])


def test_true_triples_come_to_rank_above_corrupted_ones():
    triples = chain()
    options = kglm_embedding.TransEOptions(dimension=16, epochs=300, batch_size=8)
    entities, relations = kglm_embedding.embed(triples, 14, 3, options, seed=1)
    short = replace(options, epochs=20)
    once, again, other = (kglm_embedding.embed(triples, 14, 3, short, seed) for seed in (1, 1, 2))
    assert torch.equal(once[0], again[0])
    assert torch.equal(once[1], again[1])
    assert not torch.equal(once[0], other[0])
    known, better, total = set(map(tuple, triples.tolist())), 0, 0
    for s, r, o in known:
        other = torch.tensor([(s, r, x) for x in range(12) if (s, r, x) not in known])
        here = kglm_embedding.triple_distances(entities, relations, torch.tensor([(s, r, o)]))
        better += int((kglm_embedding.triple_distances(entities, relations, other) > here).sum())
        total += len(other)
    untrained = kglm_embedding.embed(triples, 14, 3, replace(options, epochs=0), seed=1)
    assert better / total > 0.9
    torch.testing.assert_close(entities.norm(dim=1), torch.ones(14))
    assert torch.equal(entities[12:], untrained[0][12:]), "in no triple, not moved"
    assert torch.equal(relations[2], untrained[1][2])


def test_negatives_are_false_and_differ_at_one_end_and_strings_and_ranges():
    triples = chain()
    known = set(map(tuple, triples.tolist()))
    true, false = kglm_embedding.Negatives(triples, 2).pairs(triples, stream(1, "test"))
    assert not known & set(map(tuple, false.tolist()))
    assert (true[:, 1] == false[:, 1]).all()
    assert ((true != false).sum(1) == 1).all()
    # Where every corruption is true, there is no negative, and no endless search.
    full = np.array([(s, 0, o) for s in range(2) for o in range(2)])
    assert not len(kglm_embedding.Negatives(full, 1).pairs(full, stream(1, "test"))[0])
    empty = np.zeros((0, 3), np.int64)
    options = kglm_embedding.TransEOptions(dimension=2)
    assert kglm_embedding.embed(empty, 3, 1, options, 1)[0].shape == (3, 2)
    for strings in (["é", "", "b c"], []):
        packed = kglm_instances.pack_strings(strings)
        assert kglm_instances.unpack_strings(packed) == strings
    owner, number = kglm_instances.ranges(torch.tensor([3, 5, 0]), torch.tensor([5, 5, 1]))
    assert owner.tolist() == [0, 0, 2]
    assert number.tolist() == [3, 4, 0]


def test_the_file_holds_the_graph_and_the_aliases_and_the_command_writes_it_again(tmp_path):
    corpus = write_corpus(tmp_path)
    graph, aliases = embed_files(corpus)
    names = graph.entity_names()
    assert names == ["Alan Turing", "England", "London (city)"]
    # The name without its qualifier, what training mentions read, then the table.
    assert aliases == [["alan turing", "turing", "a. m. turing"], ["england", "albion"], ["london"]]
    kinds = graph.names_of_relations()
    pairs = zip(graph.edge_keys, graph.edge_relations, strict=True)
    edges = {(names[int(key) // 3], kinds[r], names[int(key) % 3]) for key, r in pairs}
    assert edges == {*TRIPLES, *((name, kglm_embedding.SELF_RELATIONS, name) for name in names)}
    owner, found = graph.edges_from(torch.tensor([2, 0]))
    assert owner.tolist() == [0, 0, 1, 1, 1]
    assert graph.objects(found).tolist() == [1, 2, 0, 2, 2]
    owner, found = graph.edges_between(torch.tensor([0, 0, 1]), torch.tensor([2, 1, 0]))
    assert owner.tolist() == [0, 0]
    assert {kinds[r] for r in graph.edge_relations[found]} == {"Born in", "Died in"}
    without = dict.fromkeys(("reflexive", "name_aliases", "surface_aliases"), False)
    plain, aliases = embed_files(corpus, cutoff=7, **without)
    assert (plain.degrees.tolist(), plain.cutoff) == ([2, 0, 1], 7)
    assert aliases == [["a. m. turing"], ["albion"], []]
    assert torch.equal(plain.entities, graph.entities), "the reflexive relation is not trained"
    corpus = write_corpus(tmp_path)
    command = [sys.executable, "-m", "scripts.embed_graph", "--corpus", str(tmp_path)]
    command += ["--options", json.dumps({"dimension": 4, "epochs": 3}), "--seed", "1"]
    command += ["--output", str(tmp_path / "other.safetensors")]
    subprocess.run(command, check=True, cwd=ROOT)
    embed_files(corpus)
    other = tmp_path / "other.safetensors"
    with safe_open(corpus.graph, "pt") as one, safe_open(other, "pt") as two:
        assert set(one.keys()) == set(two.keys())
        assert all(torch.equal(one.get_tensor(n), two.get_tensor(n)) for n in one.keys())  # noqa: SIM118
        assert json.loads(two.metadata()["record"])["seed"] == 1
    assert not list(tmp_path.glob(".*partial*"))


def test_bad_input_is_named(tmp_path):
    corpus = write_corpus(tmp_path, [], [], [])
    check_refused(r"mentions\.parquet: no entity", embed_files, corpus)
    said = r"is missing; make it with python -m scripts\.embed_graph"
    check_refused(said, kglm_instances.read_graph, corpus.graph)
    Path(corpus.graph).write_bytes(b"something else")
    check_refused(r"is no graph of scripts\.embed_graph", kglm_instances.read_graph, corpus.graph)
    graph, _ = embed_files(write_corpus(tmp_path))
    bpe = BPEVocabulary.build([["a b"]], 260)
    with pytest.raises(InputError, match="mentions are spans of words"):
        next(kglm_instances.linked_documents(corpus, "train", bpe, graph))
    for mentions, message in (
        ([(0, 0, 1, "Nobody")], r"document 0, mention \[0, 1\) of 'Nobody'.*no such entity"),
        ([(0, 9, 14, "England")], "is outside the document's 11 tokens"),
        (MENTIONS[::-1], "document 0 comes after one of 1; sort the mentions"),
        ([*MENTIONS, (9, 0, 1, "England")], "the mentions of document 9 belong to no document"),
    ):
        write_corpus(tmp_path, mentions)
        check_refused(message, kglm_instances.linked_documents, corpus, "train", words(), graph)
    with pytest.raises(ValueError, match="cutoff"):
        kglm_embedding.GraphOptions(cutoff=0)


def test_documents_are_read_with_their_codes(tmp_path):
    corpus = write_corpus(tmp_path)
    graph, _ = embed_files(corpus)
    (found,) = kglm_instances.linked_documents(corpus, "train", words(), graph)
    assert found.instance_id == 0
    # Turing new, himself again by the reflexive edge, London by the two edges from him.
    assert found.arrays[latent_instances.LATENTS].tolist() == [2, 1, 0, 0, 0, 0, 3, 0, 0, 3 + 4, 0]
    (found,) = kglm_instances.linked_documents(corpus, "valid", words(), graph)
    assert found.arrays[latent_instances.LATENTS].tolist() == [2 + 4, 0, 0, 0]
    (found,) = kglm_instances.linked_documents(corpus, "test", words(), graph)
    assert found.arrays[latent_instances.LATENTS].tolist() == [0] * 5
    far, _ = embed_files(corpus, cutoff=4)
    (found,) = kglm_instances.linked_documents(corpus, "train", words(), far)
    assert found.arrays[latent_instances.LATENTS].tolist() == [2, 1, 0, 0, 0, 0, 2, 0, 0, 3 + 4, 0]
    plain, _ = embed_files(corpus, reflexive=False)
    (found,) = kglm_instances.linked_documents(corpus, "train", words(), plain)
    assert found.arrays[latent_instances.LATENTS].tolist() == [2, 1, 0, 0, 0, 0, 2, 0, 0, 3 + 4, 0]


def test_codes_and_mentions_are_the_same():
    tensors = {"entities": torch.zeros(3, 2), "relations": torch.zeros(1, 2)}
    tensors |= {"edge_offsets": torch.tensor([0, 1, 1, 1]), "edge_keys": torch.tensor([1])}
    tensors |= {"edge_relations": torch.tensor([0])}
    tensors |= {"names": kglm_instances.pack_strings(["A", "B", "C"])}
    tensors |= {"relation_names": kglm_instances.pack_strings(["r"])}
    graph = kglm_instances.KnowledgeGraph.of(tensors, cutoff=3)
    edges = graph.edge_keys.numpy()
    # What overlaps a mention that starts before, or is longer, does not count.
    spans = [(0, 2, 0), (0, 1, 2), (1, 3, 2), (2, 3, 1), (5, 6, 1), (8, 10, 0)]
    codes = kglm_instances.encode_latents(spans, 11, edges, graph)
    assert codes.tolist() == [2, 1, 5, 0, 0, 4, 0, 0, 2, 1, 0]
    spans = [(0, 2, 0), (2, 3, 1), (4, 5, 1), (5, 6, 1)]
    codes = kglm_instances.encode_latents(spans, 6, edges, graph)
    assert codes.tolist() == [2, 1, 5, 0, 5, 4]  # A is recent at token 4, not any more at 5
    read = list(kglm_instances.decode_latents(codes))
    assert read == [(0, 2, 0, 2), (2, 3, 1, 3), (4, 5, 1, 3), (5, 6, 1, 2)]
    assert list(kglm_instances.decode_latents([])) == []
    spans = [(start, end, entity) for start, end, entity, _ in read]
    again = kglm_instances.encode_latents(spans, 6, edges, graph)
    assert again.tolist() == codes.tolist()


@pytest.mark.parametrize("kind", [kglm.KGLM, kglm_tagger.KGLMTagger])
def test_modules_are_made_from_a_corpus(kind, tmp_path):
    corpus = write_corpus(tmp_path, triples=[])
    graph, _ = embed_files(corpus, reflexive=False)
    assert not len(graph.edge_keys), "a graph without edges"
    vocabulary = words()
    torch.manual_seed(0)
    module = kind.create({"embedding_size": 4}, vocabulary, corpus).eval()
    assert torch.equal(module.graph.entities, graph.entities)
    assert not module.graph.entities.requires_grad
    (instance,) = module.instances(corpus, "train", vocabulary)
    assert len(instance.arrays[latent_instances.TOKENS]) == 11
    batch = latent_instances.InstanceBatch.of([instance])
    assert torch.isfinite(module.loss(batch))
    if kind is kglm.KGLM:
        places = {word: place for place, word in enumerate(graph.alias_vocabulary())}
        assert module.alias_words[0, 0, :3].tolist() == [places["alan"], places["turing"], -1]
        assert module.alias_words[0, 1, :2].tolist() == [places["turing"], -1]
        assert module.word_ids.tolist() == [int(vocabulary.encode([w])[0][0]) for w in places]
        assert (module.alias_words[0, 3] == -1).all()
    else:
        owner = torch.zeros(64, dtype=torch.int64)
        codes = module.sample(batch, owner, torch.rand(64, 33, dtype=torch.float64), 2.0)
        assert not ((codes > 2) & (codes % 2 == 1)).any(), "nothing can be related"
        assert torch.isfinite(module.log_prob(batch, owner, codes, [2.0])).all()
    check_refused(r"architecture\.nonsense", kind.create, {"nonsense": 1}, vocabulary, corpus)
