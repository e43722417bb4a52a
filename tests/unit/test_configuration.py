"""Configurations: typos, wrong values and names are told by their path, defaults, the page of keys.

Needs nothing. The oracle of each message is the key that the test itself broke.
"""

import dataclasses
import json
import math
import re
import typing
import warnings
from collections import Counter
from pkgutil import resolve_name

import pandas as pd
import pytest
import torch
import yaml
from pydantic.json_schema import PydanticJsonSchemaWarning

from beyond_perplexity.corpus.formats import SplitOptions
from beyond_perplexity.errors import InputError
from beyond_perplexity.figures import with_data
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.models import registry
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.models.latents.entitynlm import EntityNLMOptions
from beyond_perplexity.models.latents.kglm_embedding import GraphOptions
from beyond_perplexity.options import parse_options
from beyond_perplexity.planning import configuration, configuration_file, run, validation
from beyond_perplexity.planning.configuration_file import caps, check_path, check_values
from beyond_perplexity.semantics.evaluators.job import EvaluatorTraining
from beyond_perplexity.training.options import ContrastiveTrainingOptions, TrainingOptions
from beyond_perplexity.vocabulary import N_SPECIAL
from scripts.update_configuration_page import render
from tests.unit.evaluator_oracles import check_refused
from tests.unit.planned import BROUGHT, ROOT, SMOKE, checked, load, refused, run_of

REFERENCE = ROOT / "docs" / "configuration.md"
LATENT = "configs/smoke-importance.yaml"


def mappings(value, path=()):
    if isinstance(value, dict):
        found = [path]
        for key, item in value.items():
            found += mappings(item, (*path, key))
        return found
    return []


NAMED = {"corpora", "vocabularies", "models", "decodings", "external_samples", "evaluators"}


@pytest.mark.parametrize(
    "path", [p for p in mappings(load()) if not (len(p) == 1 and p[0] in NAMED)], ids=".".join
)
def test_a_typo_at_any_level_is_named_with_its_path(path):
    said = refused(load(SMOKE, {".".join([*path, "tpyo"]): 1}))
    assert ".".join([*path, "tpyo"]) in said
    assert "allowed are" in said


BPE = {"vocabularies.parts": {"kind": "bpe", "size": 300}}
# Other values at paths of keys >> what is said.
OF_SMOKE = """
generation.models: [gpt9] >> generation.models: no model is named 'gpt9'
generation.decodings: [greedy] >> no decoding is named 'greedy'
generation.documents: many >> generation.documents: is 'many', expected a valid integer
generation.models: [lstm, sentence-rnn] >> 'sentence-rnn' (sentence-rnn) scores sentences alone; rem
models.trigram.corpus: moon >> models.trigram.corpus: no corpus
models.trigram.vocabulary: moon >> models.trigram.vocabulary
models.trigram.family: lsmt >> models.trigram.family: is 'lsmt', expected 'cnn'
seed: -1 >> seed: is -1, expected greater than or equal to 0
decodings.beam.size: 0 >> config: decodings.beam: size: is 0
models.lstm.training: {learning_rate: -1.0} >> config: models.lstm.training
models.lstm.training.distortion: 0.1 >> models.lstm.training.distortion: unknown key
tendencies.measurement: {permutations: -3}
    >> tendencies.measurement.permutations: is -3, expected greater than or equal to 0
importance: {smc: {particles: 0}} >> config: importance.smc.particles: is 0, expected greater
importance: {smc: {particels: 9}} >> importance.smc.particels: unknown key; did you mean 'particles'
corpora.wikipedia.split: {train: 0.5, valid: 0.1, test: 0.1}
    >> corpora.wikipedia.split: the shares .* sum to 0.7
models.external: {family: trigram, corpus: wikipedia, vocabulary: words}
    >> models: 'external' is a name that is kept
models.mine: {family: huggingface, corpus: wikipedia, architecture: {path: x}, vocabulary: words}
    >> models.mine.vocabulary: .* its own tokenizer
models.mine: {family: huggingface, corpus: wikipedia, architecture: {}}
    >> models.mine.architecture: key 'path' is missing
models.mine: {family: huggingface, corpus: wikipedia, architecture: {path: x, trust: 1}}
    >> models.mine.architecture.trust: unknown
models.mine: {family: huggingface, corpus: wikipedia, training: {epochs: 1}}
    >> models.mine.training.epochs: unknown key
models.mine: {family: lstm, corpus: wikipedia} >> models.mine: key 'vocabulary' is missing
external_samples.x: {corpus: wikipedia, path: a, vocabulary: wrods}
    >> external_samples.x.vocabulary: no vocabulary .*wrods
vocabularies.raw: {kind: closed} >> vocabularies: 'raw' is a name that is kept
models.sentence-rnn.vocabulary: parts
    >> sentence-rnn.vocabulary: 'parts' is bpe, but a sentence-rnn is trained on
models.sentence-rnn.training: {distortion: 2}
    >> models.sentence-rnn.training.distortion: is 2, expected less than 1
models.sentence-rnn.training: {substitution: 0.2}
    >> models.sentence-rnn.training.*substitution, transposition: add up to 0.7, not to 1
models.sentence-rnn.training: {distorsion: 0.1} >> did you mean 'distortion'
contrastive.models: [lstn] >> contrastive.models: no model is named 'lstn'
contrastive.levels: [0.1, 1.5] >> contrastive.levels.1: is 1.5, expected less than or equal to 1
contrastive.levels: [] >> contrastive.levels: is [], expected .* at least 1 item
contrastive.base_level: 0.2 >> contrastive.base_level: 0.2 is not among the levels
contrastive.parts_level: 0.15 >> contrastive.parts_level: 0.15 is not among the levels
contrastive.distortion: {substitution: 0.6} >> the shares add up to 1.1, not to 1
contrastive.distortion: {swap: 1} >> contrastive.distortion.swap: unknown key
contrastive.vocabulary: letters >> contrastive.vocabulary: no vocabulary is named 'letters'
contrastive.pairs: {a: {}} >> contrastive.pairs.a: key 'path' is missing
thoughts.qa: {models: [lstm]} >> thoughts.qa: key 'path' is missing
thoughts.qa: {path: a.jsonl, models: []} >> thoughts.qa.models: is [], expected .* at least 1 item
thoughts.qa: {path: a.jsonl, models: [gpt9]} >> thoughts.qa.models: no model is named 'gpt9'
thoughts.qa: {path: a.jsonl, models: [sentence-rnn]}
    >> thoughts.qa.models: 'sentence-rnn' (sentence-rnn) gives no next word a probability
thoughts.qa: {path: a.jsonl, models: [lstm], proposals: [mine]}
    >> thoughts.qa.proposals.0: is 'mine', expected 'own', 'answer' or 'mixture'
thoughts.qa: {path: a.jsonl, models: [lstm], own_share: 1} >> thoughts.qa.own_share: is 1, expected
thoughts.qa: {path: a.jsonl, models: [lstm], shown: "{prompt}"}
    >> thoughts.qa.shown: lacks {prompt} or {answer}
thoughts.qa: {path: "https://x.y/a.jsonl", models: [lstm]} >> thoughts.qa.path: .* is a URL
thoughts.qa: {path: a.jsonl, models: [lstm], samplse: 3} >> did you mean 'samples'
contrastive.partition: {proposal: x} >> contrastive.partition.proposal: no model is named 'x'
contrastive.partition: {proposal: sentence-rnn}
    >> 'sentence-rnn' (sentence-rnn) is no language model of the run
contrastive.partition.samples: 0 >> contrastive.partition.samples
contrastive.partition.uniform: 2 >> contrastive.partition.uniform
contrastive.partition.proposal: lstm, models.lstm.vocabulary: few,
    vocabularies.few: {kind: closed, maximum_size: 50}
    >> another corpus or vocabulary than 'sentence-rnn'
contrastive.models: [lstm], models.lstm.vocabulary: parts
    >> no listed model of wikipedia has a closed vocabulary
contrastive.models: [lstm], models.lstm.vocabulary: parts, contrastive.vocabulary: parts
    >> contrastive.vocabulary: 'parts' has parts of words
contrastive.models: [differences],
    models.differences: {family: lstm, corpus: wikipedia, vocabulary: words}
    >> contrastive.models: 'differences' is a name that is kept
contrastive.split: valid, corpora.wikipedia.split: {train: 0.6, valid: 0, test: 0.4}
    >> corpora.wikipedia.split.valid: is 0, but models.kn-3
semantics.models: [lstn] >> semantics.models: no model is named 'lstn'
semantics.models: [sentence-rnn] >> 'sentence-rnn' (sentence-rnn) gives no next word
semantics.evaluators: [bert] >> semantics.evaluators: no evaluator is named 'bert'
semantics.splits: [] >> semantics.splits: is [], expected .* at least 1 item
semantics.splits: [dev] >> semantics.splits.0: is 'dev', expected 'train'
semantics.sentences: 0 >> semantics.sentences: is 0, expected greater than or equal to 1
semantics.samples: -1 >> semantics.samples: is -1, expected greater than or equal to 0
semantics.continuation: {prefix: 0} >> semantics.continuation.prefix: is 0, expected greater
semantics.continuation: {decoding: beam} >> continuation.decoding: is 'beam', expected 'argmax'
semantics.measures: {tau: 1} >> semantics.measures.tau: unknown key
semantics.human_scores: {a: {}} >> semantics.human_scores.a: key 'path' is missing
semantics.documents_are_sentences: {news: true}
    >> documents_are_sentences: no corpus is named 'news'
semantics.models: [correlations],
    models.correlations: {family: lstm, corpus: wikipedia, vocabulary: words}
    >> semantics.models: 'correlations' is a name that is kept
semantics.splits: [valid], corpora.wikipedia.split: {train: 0.6, valid: 0, test: 0.4}
    >> corpora.wikipedia.split.valid: is 0, but models.lstm
tendencies.embedding: {encoder: elmo} >> tendencies.embedding.encoder: .*'elmo'
tendencies.embedding: {encoder: word2vec}
    >> tendencies.embedding.encoder: 'word2vec' (word2vec) has no vectors of
tendencies.embedding: {encoder: skipthought, documents: 4001}
    >> tendencies.embedding.documents: .*4000
evaluators.words: {family: word2vec, corpus: wikipedia}
    >> evaluators: 'words' is a name that is kept
evaluators.a: {family: word2vec, corpus: none} >> evaluators.a.corpus: no corpus is named
evaluators.a: {family: infersent, vectors: none, corpus: wikipedia}
    >> evaluators.a.vectors: no evaluator is named
evaluators.a: {family: sentence-transformers, package: minilm},
    evaluators.b: {family: infersent, vectors: a, corpus: wikipedia}
    >> vectors: 'a' has no word vectors
evaluators.a: {family: sentence-transformers, package: minilm, path: x}
    >> give one of package, path; it has package and path
evaluators.a: {family: vectors} >> it has none of them
evaluators.a: {family: vectors, package: glove, when_missing: a}
    >> a.when_missing: 'a' stands in for itself
evaluators.a: {family: vectors, package: glove, when_missing: b}
    >> when_missing: no evaluator is named 'b'
evaluators.a: {family: transformer, model: none} >> a.model: no model is named
evaluators.a: {family: skipthought, corpus: wikipedia}
    >> a.vocabulary: is missing; corpus needs it
evaluators.a: {family: skipthought, corpus: wikipedia, vocabulary: parts}
    >> a.vocabulary: 'parts' has parts of words; name a closed one
evaluators.a: {family: skipthought, uni: u.npz} >> a.uni_table: is missing; uni needs it
evaluators.a: {family: infersent, corpus: wikipedia} >> evaluators.a: key 'vectors' is missing
evaluators.a: {family: bert} >> evaluators.a.family: is 'bert', expected
"""
OF_DEFAULT = """
proposals.mine: {model: lstm, family: span-crf} >> model: 'lstm' (lstm) has no latent variables
proposals.mine: {model: rnng, family: kglm-tagger}
    >> proposals.mine.family: of rnng it is one of span-crf, joint
proposals.mine: {model: rnng, family: joint}
    >> joint needs architecture.training: unsupervised in models.rnng
proposals.mine: {model: rng, family: span-crf} >> proposals.mine.model: no model is named 'rng'
importance.beside: [none] >> importance.beside: no model is named 'none'
importance.beside: [kglm] >> importance.beside: 'kglm' (kglm) is no model that scores the
importance.beside: [transformer-bpe] >> no latent model has the corpus and the vocabulary of
importance.choose: validation, importance.split: valid >> importance.choose: is validation, but
contrastive.models: [rnng] >> contrastive.models: 'rnng' (rnng) has latent
semantics.models: [rnng] >> semantics.models: 'rnng' (rnng) gives no next word
generation.models: [lstm, rnng], generation.decodings: [nucleus, beam]
    >> generation.models: 'rnng' has latent variables
"""
OF_LATENT_MODELS = """
models.entitynlm.training: {scheduled_sampling: linear, sampling_k: 1.0, sampling_c: 0.1}
    >> models.entitynlm.training.scheduled_sampling: is for models w
proposals.entitynlm-no-peeking.training:
    {scheduled_sampling: linear, sampling_k: 1.0, sampling_c: 0.1}
    >> proposals.entitynlm-no-peeking.training.scheduled_sampling: is for models w
proposals.entitynlm-peeking.architecture: {maximum_length: 25}
    >> proposals.entitynlm-peeking.architecture.maximum_length: is 25, but 8 in
vocabularies.words: {kind: bpe, size: 300} >> vocabulary: 'words' is bpe
corpora.wikipedia.trees: {kind: none} >> models.rnng.corpus: rnng needs tre
corpora.wikipedia.source: {format: text, paths: [a.txt]}
    >> models.entitynlm.corpus: entitynlm needs mentions
corpora.wikipedia.source: {format: conll, paths: [a.conll]}
    >> models.kglm.corpus: kglm needs a knowledge graph
corpora.wikipedia.source.paths: {train: [a], valid: [b]} >> source.paths: key 'test' is missing
corpora.wikipedia.split: {train: 0.9, valid: 0.1, test: 0.0}
    >> corpora.wikipedia.split.test: is 0, but models.rnng is evaluated on it
importance.choose: validation, corpora.wikipedia.split: {train: 0.3, valid: 0.0, test: 0.7}
    >> split.valid: is 0, but .* (importance.choose)
importance.reduction: {confidence: 2.0} >> reduction.confidence: is 2.0, expected less than
importance.temperatures: [1.0, .nan] >> importance.temperatures.1: is nan
importance.temperatures: [.inf] >> importance.temperatures.0: is inf
importance.temperatures: [1.0e-320] >> importance.temperatures: 1e-320
importance.smc: {temperature: 1.0e-300} >> importance.smc.temperature: 1e-300
"""
REFUSED = [
    (name, " ".join(changes.split()), said.strip())
    for name, table in ((SMOKE, OF_SMOKE), ("config.yaml", OF_DEFAULT), (LATENT, OF_LATENT_MODELS))
    for changes, said in re.findall(r"([^>]+)>>([^\n]+)\n", table)
]


@pytest.mark.parametrize(("name", "changes", "said"), REFUSED)
def test_what_no_run_can_have_is_named_with_its_path(name, changes, said):
    more = BPE if "parts" in changes else {}
    message = refused(load(name, more | yaml.safe_load(f"{{{changes}}}")))
    assert re.search(re.escape(said).replace(r"\.\*", ".*"), message)


def test_the_same_with_what_is_allowed_is_not_refused():
    mine = checked(SMOKE, {"models.mine": dict(BROUGHT)})
    assert mine["models"]["mine"]["training"] == {}
    checked(SMOKE, {"contrastive.partition.proposal": "lstm"})
    checked("config.yaml", {"generation.models": ["lstm", "rnng"]})
    closed = {"contrastive.models": ["lstm"], "models.lstm.vocabulary": "parts"}
    held = run_of(SMOKE, BPE | closed | {"contrastive.vocabulary": "words"}).contrastive
    assert held.substitutes("lstm") == ["<results>/vocabularies/wikipedia/words.json"]


@pytest.mark.parametrize("name", ["results", "logs", "benchmarks"])
def test_no_folder_is_the_root_of_the_file_system(name):
    """Snakemake puts `/models/...` behind the folder, whatever it is."""
    for folder in ("", "  ", "\t", "/", "//"):
        said = refused(load(SMOKE, {"pathvars": {"results": "elsewhere", name: folder}}))
        assert re.search(rf"config: pathvars\.{name}: .*; name a folder", said)
    checked(SMOKE, {f"pathvars.{name}": "a b/c"})


@pytest.mark.parametrize(
    ("path", "key"), [("models.lstm", "family"), ("vocabularies.words", "kind")]
)
def test_a_missing_family_or_kind_is_the_only_thing_that_is_reported(path, key):
    config = load()
    section, name = path.split(".")
    del config[section][name][key]
    assert refused(config) == f"config: {path}: key '{key}' is missing"


def test_lengths_fit_the_context_and_a_proposal_has_the_caps_of_its_model():
    config = load("config.yaml", {"generation.maximum_length": 600})
    assert re.search(r"maximum_length: is 600, but 'transformer' .* 512", refused(config))
    for name in config["generation"]["models"]:
        if name.startswith("transformer"):
            config["models"][name]["architecture"] = {"context_length": 600}
    validation.validate(config)
    config = checked(LATENT, {"models.entitynlm.architecture": {"maximum_length": 25}})
    own = config["proposals"]["entitynlm-no-peeking"]["architecture"]
    assert own == {"context": "causal", "maximum_length": 25, "maximum_entities": 50}


@pytest.mark.parametrize(("samples", "replicate"), [(20, 2), (5, 1), (999, 99), (1000, None)])
def test_fewer_samples_alone_are_enough_said(samples, replicate):
    """Oracle: a density needs replicates, and what finished jobs were told stays as it is."""
    config = checked(LATENT, {"importance": {"samples": samples}})
    assert config["importance"]["reduction"].get("replicate_samples") == replicate
    more = {"samples": samples, "reduction": {"replicate_samples": samples + 1}}
    said = refused(load(LATENT, {"importance": more}))
    assert re.search(r"replicate_samples: is \d+, above .* or leave it out", said)


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ({"unit": "page"}, {"unit": "page", "train": 0.7, "valid": 0.1, "test": 0.2}),
        ({"train": 0.5, "valid": 0.2, "test": 0.3}, {"unit": "document"}),
    ],
)
def test_a_split_may_name_its_unit_alone_or_shares_alone(given, filled):
    config = load(SMOKE, {"corpora.wikipedia.split": dict(given)})
    del config["seed"]
    validation.validate(config)
    corpora, split = run.Run(config).corpora, config["corpora"]["wikipedia"]["split"]
    assert (config["seed"], config["external_samples"]) == (1, {})  # defaults are filled in
    assert split == {**given, **filled} == json.loads(corpora.options("wikipedia"))["split"]
    assert corpora.split_unit("wikipedia") == split["unit"]


def of_texts(paths):
    return load(SMOKE, {"corpora.wikipedia.source": {"format": "text", "paths": paths}})


def test_patterns_of_paths_are_expanded_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.txt", "a.txt", "a.md", "really[1].txt", "a{b}.csv"):
        (tmp_path / name).write_text("text")
    config = of_texts(["?.txt", "really[1].txt", "missing.txt"])
    validation.validate(config)
    found = ["a.txt", "b.txt", "really[1].txt", "missing.txt"]
    assert config["corpora"]["wikipedia"]["source"]["paths"] == found
    assert re.search(r"paths.*a\{b\}\.csv' has the character \{", refused(of_texts(["*.csv"])))
    config = of_texts({split: [f"{split}.txt"] for split in ("train", "valid", "test")})
    del config["corpora"]["wikipedia"]["split"]
    validation.validate(config)
    assert run.Run(config).corpora.split_unit("wikipedia") == "page"  # files keep their pages whole
    config["corpora"]["wikipedia"]["source"]["paths"]["train"] = ["*.jsonl"]
    message = r"corpora\.wikipedia\.source\.paths\.train: no file matches \*\.jsonl"
    assert re.search(message, refused(config))


NUMBERS = sorted(
    name
    for name, hint in typing.get_type_hints(TrainingOptions).items()
    if {int, float} & {hint, *typing.get_args(hint)}
)


NONSENSE = [math.nan, math.inf, -math.inf, -1, -0.5, 1 << 63, 10**400]


def test_no_number_of_a_training_is_nonsense():
    """Each number in turn, each nonsense twice; and what no key may be, for all of them at once."""
    assert {"learning_rate", "plateau_epochs", "sampling_k"} <= set(NUMBERS)
    for place, name in enumerate(NUMBERS):
        value = NONSENSE[place % len(NONSENSE)]
        with pytest.raises(InputError, match=rf"config: models\.lstm\.training\.?.*{name}"):
            validation.validate(load(SMOKE, {f"models.lstm.training.{name}": value}))
        for value in NONSENSE[:3] + NONSENSE[5:]:
            said = rf"config: training\.{name}: is"
            check_refused(said, check_values, {"training": {name: value}})


@pytest.mark.parametrize("kind", [TrainingOptions, ContrastiveTrainingOptions, EvaluatorTraining])
def test_no_option_of_a_training_is_below_zero(kind):
    """Of the dataclasses, which a job reads whatever the schema says."""
    hints = typing.get_type_hints(kind)
    for name in (name for name in NUMBERS if name in hints):
        check_refused(name, parse_options, kind, {name: -1}, "training")


@pytest.mark.parametrize(
    ("share", "value"), [("train", math.nan), ("valid", math.inf), ("test", -0.1), ("train", 1.5)]
)
def test_no_share_of_a_split_is_nonsense(share, value):
    assert share in {field.name for field in dataclasses.fields(SplitOptions)}
    shares = {"train": 0.5, "valid": 0.2, "test": 0.3, share: value}
    with pytest.raises(InputError, match=r"config: corpora\.wikipedia\.split"):
        validation.validate(load(SMOKE, {"corpora.wikipedia.split": shares}))


@pytest.mark.parametrize("ending", ["\n", "\n\n", " "])
def test_a_name_does_not_end_in_a_line_feed_or_a_blank(ending, monkeypatch):
    """Last by the types alone, without the search for control characters."""
    values = {
        "decodings": {"kind": "ancestral"},
        "models": {"family": "trigram", "corpus": "wikipedia", "vocabulary": "words"},
        "corpora": {"source": {"format": "text", "paths": ["x"]}, "split": {}},
    }
    for section, value in values.items() if ending == "\n" else ():
        with pytest.raises(InputError, match=rf"config: {section}\.a\\n: .*control character"):
            validation.validate(load(SMOKE, {f"{section}.a\n": value}))
    monkeypatch.setattr(configuration_file, "check_values", lambda config: None)
    with pytest.raises(InputError, match=r"expected .* match pattern"):
        validation.validate(load(SMOKE, {"decodings.a" + ending: {"kind": "ancestral"}}))


PATHS = [
    ("https://example.org/a.bz2", "is a URL; give it as {url"),
    *(("s3://bucket/a", "is a URL"), ("data/{x}.txt", "has the character {")),
    *(("data/<x>.txt", "has the character <"), ("data/x\n.txt", "control character")),
    ("   ", "is blank"),
]


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("corpora.wikipedia.source.paths", "corpora.wikipedia.source.paths.0"),
        ("pathvars.results", ""),
        ("tendencies.stop_words", ""),
        ("external_samples.mine", "external_samples.mine.path"),
    ],
)
def test_paths_that_no_rule_can_name_are_told_wherever_they_stand(key, place):
    for path, message in PATHS if key.startswith("corpora") else PATHS[2:4]:
        samples = {"path": path, "format": "text", "corpus": "wikipedia"}
        values = {"corpora": [path], "external_samples": samples}
        said = refused(load(SMOKE, {key: values.get(key.partition(".")[0], path)}))
        assert said.startswith(f"config: {place or key}")
        assert message in said


def test_addresses_with_marks_of_snakemake_are_told_and_ordinary_paths_pass():
    location = {"url": "https://a.org/b.zip", "sha256": "0" * 64, "member": "c.txt"}
    for key in ("url", "member"):
        marked = {**location, key: location[key] + "{d}"}
        said = refused(load(SMOKE, {"corpora.wikipedia.source.paths": [marked]}))
        assert f"source.paths.0.{key}: has the character {{" in said
    for path in ("data/a b.txt", "/x/é.txt", "../a[1].txt", "a:b", "C:\\x", "-x", "~/a"):
        check_path("key", path)
    check_values({"a": {"b": [1, 2.5, None, True, "x\ty"]}})


PIECE = f"training.maximum_length {TrainingOptions().maximum_length}"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"family": "lstm"}, [PIECE]),
        ({"family": "lstm", "training": {"maximum_steps": 5}}, [PIECE]),
        ({"family": "lstm", "training": {"maximum_length": 7}}, ["training.maximum_length 7"]),
        *(({"family": "trigram"}, []), ({"family": "kneser-ney"}, []), (BROUGHT, [])),
        ({**BROUGHT, "training": {"maximum_epochs": 1}}, [PIECE]),
        (
            {"family": "sentence-rnn", "training": {"maximum_length": 9}},
            ["training.maximum_length 9"],
        ),
        (
            {"family": "entitynlm", "architecture": {"maximum_length": 3}},
            [f"maximum_entities {EntityNLMOptions().maximum_entities}", "maximum_length 3"],
        ),
    ],
)
def test_caps_are_named_with_their_values(options, expected):
    assert caps(options) == expected


def test_the_tables_of_a_run_and_the_csv_are_told_the_caps():
    config = checked(SMOKE, {"generation.maximum_length": 41})
    report = run.Run(config).report
    groups = [group for group in report.groups() if group.startswith("tendencies")]
    assert groups
    for group in groups:
        data = json.loads(report.labels(group))["data"]
        assert list(data) == config["generation"]["models"]
        assert all(words.endswith("generation.maximum_length 41") for words in data.values())
    labels = Labels(data={"a": "caps: x 1"})
    by_model = with_data(pd.DataFrame({"model": ["a", "b"]}), labels)
    data = [value if isinstance(value, str) else None for value in by_model["data"]]
    assert data == ["caps: x 1", None]
    by_source = with_data(pd.DataFrame({"source": ["a/ancestral", "external/a"]}), labels)
    assert by_source["data"].notna().tolist() == [True, False]
    for unknown in (pd.DataFrame({"model": ["b"]}), pd.DataFrame({"value": [1.0]})):
        assert with_data(unknown, labels) is unknown


def test_the_page_of_keys_has_not_drifted_and_has_a_row_and_links_for_each():
    advice = "run python -m scripts.update_configuration_page"
    page = REFERENCE.read_text(encoding="utf-8")
    assert page == render(configuration.Configuration), advice
    section = page.partition("## models.NAME.architecture (family: rnng)\n")[2]
    section = section.partition("\n## ")[0]
    assert "| `maximum_words` | integer | `40` | Longer sentences are left out" in section
    assert "| `minimum_words` |" in section
    assert "## models.NAME.training" in page
    # oracles: pydantic's schema, the dataclasses of the families; GitHub's rule for anchors
    page = REFERENCE.read_text(encoding="utf-8")
    keys = Counter({"kind": 1, "family": 1})  # which distinguish vocabularies and evaluators
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PydanticJsonSchemaWarning)  # keys that have no default
        schema = configuration.Configuration.model_json_schema()
    for held in (schema, *schema["$defs"].values()):
        keys.update(list(held["properties"]))
    found = [resolve_name(row.options) for row in FAMILIES.values() if row.options]
    for kind in [GraphOptions, *found, *{resolve_name(row.training) for row in FAMILIES.values()}]:
        keys.update(field.name for field in dataclasses.fields(kind))
    assert Counter(re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)) == keys
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert len(anchors) == len(headings)
    links = set(re.findall(r"\(#([^)]+)\)", page))
    assert links == anchors - {"top-level"}
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}


@pytest.mark.parametrize(
    ("name", "millions"),
    [  # Table 1 of Meister & Cotterell (2021)
        *(("transformer", 205), ("transformer-closed", 205), ("cnn", 133), ("cnn-closed", 133)),
        *(("transformer-adaptive-softmax", 315), ("transformer-adaptive-softmax-bpe", 315)),
        *(("lstm", 59), ("lstm-closed", 59)),
    ],
)
def test_the_papers_models_have_its_parameter_counts(name, millions):
    config = load("configs/paper.yaml")
    model = config["models"][name]
    vocabulary = config["vocabularies"][model["vocabulary"]]
    closed = vocabulary["kind"] == "closed"
    size = vocabulary["maximum_size"] + N_SPECIAL if closed else vocabulary["size"]
    with torch.device("meta"):  # shapes without memory
        built = registry.build(model, size, not closed)
    assert built.parameter_count() == pytest.approx(millions * 1e6, rel=0.011)
    assert (built.context_length or 1e9) >= config["generation"]["maximum_length"]
