# Lookups that the rules share: configuration, fingerprints, lists of targets, resources.
import atexit
import contextlib
import os
import sys
import time
from pathlib import Path

from snakemake.logging import logger

sys.path.insert(0, str(workflow.basedir))

from beyond_perplexity.corpus.formats import SENTENCES
from beyond_perplexity.figures import FIGURES
from beyond_perplexity.figures.labels import EXTERNAL, reference_in
from beyond_perplexity.importance.ways_to_draw import DRAWS
from beyond_perplexity.planning.configuration_file import as_json
from beyond_perplexity.planning.importance import DRAW_FLAGS, REDUCED
from beyond_perplexity.planning.job_costs import PLAN_FILE, JobCosts, expect, read_plan
from beyond_perplexity.planning.run import Run, prepare_environment
from beyond_perplexity.planning.semantics import PROBED
from beyond_perplexity.planning.pilot import JOBS_VARIABLE, summarize_run
from beyond_perplexity.planning.snakemake_hooks import (
    RunRecord,
    print_job_lines,
    take_over,
    watch,
)
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.report import TABLES
from beyond_perplexity.report.static_page import write_static_page
from beyond_perplexity.errors import SHELL_PREFIX, InputError
from beyond_perplexity.storage.fingerprint import fingerprint
from beyond_perplexity.storage.outputs import write_json
from beyond_perplexity.storage.shards import as_ranges
from snakemake.cli import get_argument_parser

prepare_environment(workflow.basedir)

shell.prefix(SHELL_PREFIX)
STARTED = time.time()

try:
    validate(config)
except InputError as error:
    raise WorkflowError(str(error)) from None

RUN = Run(config)
watch(workflow, RUN.results)
COSTS = JobCosts(RUN, read_plan(Path(RUN.results, PLAN_FILE)))
PLAN = RUN.importance
JUDGES = RUN.evaluators
READING = {
    "symbols": RUN.samples.symbols_flag,
    "minimum_tokens": config["tendencies"]["minimum_tokens"],
    "maximum_tokens": RUN.samples.maximum_tokens,
}
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
RESOURCES_PAGE = report(
    "<benchmarks>/resources.html",
    category="Time and memory",
    caption="report/resources.rst",
)
OVERVIEW = "<results>/overview/overview.rst"
REPORT_TEXT = os.path.abspath(f"{RUN.results}/overview/overview.rst")


def is_dry_run():
    """Whether this only prints what it would do; Snakemake itself knows no sooner than it starts."""
    return get_argument_parser().parse_known_args(sys.argv[1:])[0].dryrun


if workflow.is_main_process and not is_dry_run():
    RECORD = RunRecord(RUN.results, workflow.resource_settings.nodes is not None)
    if RECORD.said:
        logger.warning(RECORD.said)
    # What a job says is in its log.
    shell.prefix(f"{SHELL_PREFIX}{RECORD.prefix}exec >/dev/null; ")
    print_job_lines(logger, f"{RUN.results}/logs")


def whole(path):
    """An output that a job must not leave empty."""
    return ensure(path, non_empty=True)


def doubling(number):
    """Megabytes, or minutes, that double with every attempt."""
    return lambda wildcards, attempt: number * 2 ** (attempt - 1)


def memory(rule):
    """Memory for the models and the shard of a job; it doubles with every attempt."""
    return lambda wildcards, attempt: COSTS.megabytes(rule, wildcards, attempt)


def minutes(rule):
    """Run time for the models and the shard of a job; it doubles with every attempt."""
    return lambda wildcards, attempt: COSTS.minutes(rule, wildcards, attempt)


def of(find, *names):
    """What a function returns for some of the wildcards of a job."""
    return lambda wildcards: find(*(wildcards.get(name) for name in names))


def present(find, *names):
    """The files that a function returns; in a dry run without those of the user's that are missing."""

    def find_present(wildcards):
        files = of(find, *names)(wildcards)
        return RUN.corpora.present(files) if workflow.dryrun else files

    return find_present


def option_of(section, name, *keys):
    """A part of the configuration that a wildcard names, as JSON."""

    def find(entry):
        held = config[section][entry]
        return as_json(held[keys[0]] if keys else held)

    return of(find, name)


def code_of(script, *finders):
    """The fingerprint of a script, or function of the library, with the modules that are found by wildcards."""
    path = f"scripts/{script}.py"
    if not (Path(workflow.basedir) / path).exists():
        path = f"beyond_perplexity/library/{script}.py"
    return lambda wildcards: fingerprint(
        path, *(file for find in finders for file in find(wildcards))
    )


def proposal_of(wildcards):
    """The proposal that a job is about: the one that is shown where none is named."""
    return wildcards.get("proposal", PLAN.shown_proposal(wildcards.model))


def pair_files(wildcards):
    """What a job with a latent model and a proposal reads."""
    folder = PLAN.trained_proposal(proposal_of(wildcards))
    return {
        "documents": RUN.models.documents(wildcards.model),
        "tables": RUN.models.tables(wildcards.model),
        "model": f"<results>/models/{wildcards.model}/model.json",
        "proposal": f"<results>/models/{folder}/model.json",
    }


def pair_code(wildcards):
    """The modules of the two families, and of the way to draw, that a job runs."""
    return PLAN.code(wildcards.model, proposal_of(wildcards), wildcards.get("draw"))


def proposed(wildcards):
    """The modules of the model that words are drawn from for partition functions."""
    return RUN.models.code(config["contrastive"]["partition"]["proposal"])


def of_corpus(find):
    """What a function returns for the corpus of a job, or for that of its model or sample set."""

    def find_of_corpus(wildcards):
        corpus, model = wildcards.get("corpus"), wildcards.get("model")
        if corpus is None and "decoding" in wildcards.keys():
            corpus = RUN.samples.corpus_of(model, wildcards.decoding)
        return find(corpus or RUN.models.corpus(model))

    return find_of_corpus


COMPARING = {
    **READING,
    "first": config["generation"]["documents"],
    "options": as_json(config["tendencies"]["measurement"]),
    "seed": config["seed"],
    "stop_words": of_corpus(RUN.corpora.stop_words),
    "group_column": of_corpus(RUN.samples.group_column),
}


JUDGING = {
    **READING,
    "code": RUN.judge.code(),
    "most": RUN.judge.documents,
    "seed": config["seed"],
}


def in_ranges(name=None):
    """The input files (of a name) in few words: a command of thousands of paths is refused."""

    def write(wildcards, input):
        files = input if name is None else getattr(input, name)
        return as_ranges([files] if isinstance(files, str) else files)

    return write


def all_in_ranges(names):
    """The input files of every one of some names, as the parameters of the same names."""
    return {name: in_ranges(name) for name in names}


gpus = of(RUN.models.gpus, "model")
beside_gpus = of(RUN.models.gpus, "beside")
judge_gpus = of(JUDGES.gpus, "evaluator")
judging_gpus = of(RUN.judge.gpus)
encoder_gpus = lambda _: JUDGES.gpus(RUN.embeddings.encoder)


def files_by_kind(wildcards, input):
    """The input files by their kind, as JSON, in few words: there may be thousands."""
    return as_json({kind: as_ranges(files) for kind, files in input.items()})


def environment(asked):
    """The environment of a job: with CUDA where it asks for a GPU."""
    return lambda wildcards: f"../envs/{'gpu' if asked(wildcards) else 'cpu'}.yaml"


def print_summary():
    """Print what a dry run would do; Snakemake has no hook of its own for dry runs."""
    # Without a scheduler the plan was never made: an error came before, or it is another subcommand.
    if getattr(workflow, "scheduler", None) and workflow.dryrun:
        done, to_do = [], []
        for job in workflow.dag.jobs:
            if job.rule.name not in LOCAL_TARGETS:
                known = to_do if workflow.dag.needrun(job) else done
                known.append(COSTS.describe_job(job.rule.name, job))
        jobs = list(expect(to_do, done, COSTS.planned))
        if path := os.environ.get(JOBS_VARIABLE):
            write_json(path, [job._asdict() for job in jobs])
        # Where Snakemake prints the plan, so that a pager or a file has it at the end.
        with contextlib.suppress(BrokenPipeError):
            print(f"\n{summarize_run(RUN, jobs)}", flush=True)


def print_report():
    """Say where the report is that this process has made."""
    path = f"{RUN.results}/report.html"
    if os.path.exists(path) and os.path.getmtime(path) >= STARTED:
        print(f"\n{path}: written", flush=True)


LOCAL_TARGETS = {
    "all",
    "corpora",
    "models",
    "samples",
    "tendencies",
    "perplexity",
    "importance",
    "thoughts",
    "contrastive",
    "semantics",
    "relations",
}
atexit.register(print_summary)
if workflow.is_main_process:
    atexit.register(print_report)
