"""Evaluate language models beyond one perplexity number. `snakemake --profile profiles/default`."""

from snakemake.utils import min_version

min_version("9.14")

if not workflow.overwrite_configfiles:

    configfile: "config.yaml"


pathvars:
    logs="<results>/logs",
    benchmarks="<results>/benchmarks",


include: "rules/common.smk"
include: "rules/corpus.smk"
include: "rules/train.smk"
include: "rules/generate.smk"
include: "rules/importance.smk"
include: "rules/thoughts.smk"
include: "rules/contrastive.smk"
include: "rules/evaluators.smk"
include: "rules/semantics.smk"
include: "rules/tendencies.smk"
include: "rules/relations.smk"
include: "rules/report.smk"


report: REPORT_TEXT


onstart:
    take_over(workflow.dag, RUN.results)
    write_json(f"{RUN.results}/configuration.json", RUN.config)


onsuccess:
    write_static_page(
        RUN.results,
        RUN.report.shown("tables", TABLES),
        RUN.report.shown("figures", FIGURES),
    )


wildcard_constraints:
    corpus="|".join([*config["corpora"], *RUN.samples.sentence_corpora()]),
    vocabulary=NAME,
    model=NAME,
    decoding=NAME,
    external=NAME,
    proposal=NAME,
    beside=NAME,
    drawn="draws|choices/draws",
    reduced="estimates|choices/estimates",
    draw="|".join(DRAWS),
    setting="[a-z_0-9.-]+",
    instances="[0-9]{5}",
    samples="[0-9]{5}",
    shard="[0-9]{5}",
    units="[0-9]{5}",
    block="[0-9]{5}",
    evaluator=NAME,
    draws="[0-9]{5}",
    pairs=NAME,
    prompts=NAME,
    way="own|answer|mixture",
    resample="[0-9]{3}",
    sha256="[0-9a-f]{64}",
    group="|".join(RUN.report.groups()) or NAME,
    exhibit="[a-z_0-9]+",


localrules:
    all,
    corpora,
    models,
    samples,
    tendencies,
    perplexity,
    importance,
    thoughts,
    contrastive,
    semantics,
    relations,


rule all:
    """Everything: tables, figures, the first page of the report, and every shard behind them."""
    default_target: True
    input:
        SAMPLES,
        CONTRASTS,
        SEMANTICS,
        RELATIONS,
        REPORTED,
        OVERVIEW,


rule corpora:
    """The documents of every corpus."""
    input:
        expand("<results>/corpora/{corpus}/documents.parquet", corpus=config["corpora"]),


rule models:
    """Every trained model."""
    input:
        expand("<results>/models/{model}/model.json", model=config["models"]),


rule perplexity:
    """The perplexity of every model."""
    input:
        PERPLEXITIES,


rule samples:
    """Every shard of generated documents."""
    input:
        SAMPLES,


rule importance:
    """The estimates of every model with latent variables, their tables and figures."""
    input:
        IMPORTANCE,


rule thoughts:
    """The perplexity of answers by thoughts: its estimates, tables and figures."""
    input:
        RUN.report.files("thoughts"),


rule contrastive:
    """Contrastive entropy: measures, differences and pairs, their tables and figures."""
    input:
        CONTRASTS,
        RUN.report.files("contrastive"),


rule semantics:
    """The meaning of predictions: measures, differences and probes, their tables and figures."""
    input:
        SEMANTICS,
        RUN.report.files("semantics"),


rule relations:
    """How the measures of all papers go together, their tables and figures."""
    input:
        RELATIONS,
        RUN.report.files("relations"),


rule tendencies:
    """The measured tendencies of every sample set."""
    input:
        MEASURES,
