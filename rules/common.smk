# Lookups that the rules share: configuration, fingerprints, lists of targets, resources.
import atexit
import os
import sys

sys.path.insert(0, str(workflow.basedir))

from beyond_perplexity.corpus.split import SENTENCES
from beyond_perplexity.figures import FIGURES
from beyond_perplexity.figures.labels import EXTERNAL, reference_in
from beyond_perplexity.importance.drawing.draws import DRAWS
from beyond_perplexity.planning import parameters
from beyond_perplexity.planning.importance import DRAW_FLAGS
from beyond_perplexity.planning.report import INPUT_FLAGS
from beyond_perplexity.planning.run import Run, prepare_environment
from beyond_perplexity.planning.summary import PlannedJob, summarize_jobs
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.report import TABLES
from beyond_perplexity.errors import InputError
from beyond_perplexity.storage.fingerprint import fingerprint

prepare_environment(workflow.basedir)

try:
    validate(config, os.path.join(workflow.basedir, "rules", "config.schema.yaml"))
except InputError as error:
    raise WorkflowError(str(error)) from None

RUN = Run(config)
PLAN = RUN.importance
JUDGES = RUN.evaluators
NAME = "[A-Za-z0-9][A-Za-z0-9_-]*"

SAMPLES = RUN.samples.all_shards()
MEASURES = [
    file
    for corpus in RUN.samples.compared_corpora()
    for file in RUN.embeddings.measures(corpus)
]
PERPLEXITIES = expand(
    "<results>/perplexity/{model}.json",
    model=dict.fromkeys(
        [
            *RUN.models.scored(),
            *RUN.contrastive.normalized(),
            *RUN.semantics.models(),
        ]
    ),
)
CONTRASTS = RUN.contrastive.files()
SEMANTICS = RUN.semantics.files()
RELATIONS = RUN.relations.files()
EXTRACTIONS = expand(
    "<results>/corpora/{corpus}/extraction.json", corpus=config["corpora"]
)
MAIN_FIGURES = expand(
    "<results>/figures/{group}/main.svg", group=RUN.report.groups("tendencies")
)
FINDINGS = {
    paper: expand(
        "<results>/tables/{group}/findings.csv", group=RUN.report.groups(paper)
    )
    for paper in ("contrastive", "semantics", "relations")
}
REPORTED = RUN.report.files()
IMPORTANCE = RUN.report.files("importance")
OVERVIEW = "<results>/overview/overview.rst"
REPORT_TEXT = os.path.abspath(f"{RUN.results}/overview/overview.rst")


def whole(path):
    """An output that a job must not leave empty."""
    return ensure(path, non_empty=True)


def growing(megabytes):
    """Memory that doubles with every attempt."""
    return lambda wildcards, attempt: megabytes * 2 ** (attempt - 1)


def family_fingerprint(script):
    """The code of a script with that of the family of the model that it runs."""
    return lambda wildcards: fingerprint(script, *RUN.models.code(wildcards.model))


def evaluator_fingerprint(script):
    """The code of a script with that of the family of the evaluator that it runs."""
    return lambda wildcards: fingerprint(
        script, *RUN.semantics.evaluator_code(wildcards.evaluator)
    )


def documents_of_model(wildcards):
    """The documents that a model is trained on."""
    return f"<results>/corpora/{RUN.models.corpus(wildcards.model)}/documents.parquet"


def proposal_of(wildcards):
    """The proposal that a job is about: the first one for its model where none is named."""
    return wildcards.get("proposal", PLAN.proposals_of(wildcards.model)[0])


def pair_files(wildcards):
    """What a job with a latent model and a proposal reads."""
    folder = PLAN.trained_proposal(proposal_of(wildcards))
    return {
        "documents": documents_of_model(wildcards),
        "tables": RUN.models.tables(wildcards.model),
        "model": f"<results>/models/{wildcards.model}/model.json",
        "proposal": f"<results>/models/{folder}/model.json",
    }


def pair_fingerprint(script):
    """The code of a script with that of the two families, and of the way to draw, that it runs."""
    return lambda wildcards: fingerprint(
        script,
        *PLAN.code(wildcards.model, proposal_of(wildcards), wildcards.get("draw")),
    )


def shards_of(pattern):
    """The files of all shards of a body of text."""
    return lambda wildcards: expand(
        pattern, shard=RUN.samples.shards(wildcards.model), **wildcards
    )


def gpus(wildcards):
    """One GPU for a neural model, none for an n-gram model."""
    return RUN.models.gpus(wildcards.model)


def print_summary():
    """Print what a dry run would do; Snakemake has no hook of its own for dry runs."""
    # Without a scheduler the plan was never made: an error came before, or it is another subcommand.
    if getattr(workflow, "scheduler", None) and workflow.dryrun:
        jobs = [
            PlannedJob(
                job.rule.name,
                int(job.resources.get("gpu", 0)),
                float(job.resources.get("runtime", 0)),
            )
            for job in workflow.dag.jobs
            if workflow.dag.needrun(job) and job.rule.name not in LOCAL_TARGETS
        ]
        print(f"\n{summarize_jobs(RUN, jobs)}", file=sys.stderr)


LOCAL_TARGETS = {
    "all",
    "corpora",
    "models",
    "samples",
    "tendencies",
    "perplexity",
    "importance",
    "contrastive",
    "semantics",
    "relations",
}
atexit.register(print_summary)
