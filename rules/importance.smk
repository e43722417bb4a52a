# Latents are drawn from proposals and weighed, shard by shard; the weights become estimates.
#
# requires  trained models with latent variables and proposals (train.smk), the tables of a corpus (corpus.smk)
# makes     <results>/corpora/{corpus}/graph.safetensors
#           <results>/log_weights/{model}/{proposal}/tau_{temperature}/{shard}.parquet
#           <results>/beams/{model}/{proposal}/{shard}.parquet
#           <results>/smc/{model}/{proposal}/{shard}.parquet
#           <results>/estimates/{model}/{proposal}/{estimates,curves,replicates,diagnostics}.parquet
#           <results>/latents/{model}.json
# steps     embed_graph -> train -> weigh, search_beams, smc -> reduce_weights, describe_latents -> tables and figures (report.smk)


rule embed_graph:
    """Train embeddings of the entities and relations of a corpus' knowledge graph."""
    input:
        documents="<results>/corpora/{corpus}/documents.parquet",
        tables=expand(
            "<results>/corpora/{{corpus}}/{table}.parquet",
            table=["mentions", "knowledge_graph", "aliases"],
        ),
    output:
        ensure("<results>/corpora/{corpus}/graph.safetensors", non_empty=True),
    log:
        "<logs>/embed_graph/{corpus}.log",
    benchmark:
        "<benchmarks>/embed_graph/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=240,
    params:
        code=fingerprint("scripts/embed_graph.py"),
        corpus=subpath(input.documents, parent=True),
        options=parameters.as_json(config["importance"]["graph"]),
        preprocessing=lambda wildcards: RUN.corpora.preprocessing(wildcards.corpus),
        seed=config["seed"],
    shell:
        """
        python -m scripts.embed_graph \
            --corpus {params.corpus:q} \
            --options {params.options:q} \
            --preprocessing {params.preprocessing:q} \
            --seed {params.seed} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule weigh:
    """Draw latents from a proposal and give log p and log q of one block of instances and samples."""
    input:
        documents=lambda wildcards: f"<results>/corpora/{PLAN.corpus(wildcards.model)}/documents.parquet",
        tables=lambda wildcards: RUN.models.tables(wildcards.model),
        model="<results>/models/{model}/model.json",
        proposal=lambda wildcards: f"<results>/models/{PLAN.trained_proposal(wildcards.proposal)}/model.json",
    output:
        ensure(
            "<results>/log_weights/{model}/{proposal}/tau_{temperature}/{shard}.parquet",
            non_empty=True,
        ),
    log:
        "<logs>/weigh/{model}/{proposal}/tau_{temperature}/{shard}.log",
    benchmark:
        "<benchmarks>/weigh/{model}/{proposal}/tau_{temperature}/{shard}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=growing(3000),
        runtime=90,
        gpu=1,
    params:
        code=lambda wildcards: fingerprint(
            "scripts/weigh.py", *PLAN.code(wildcards.model, wildcards.proposal)
        ),
        model=subpath(input.model, parent=True),
        proposal=subpath(input.proposal, parent=True),
        corpus=subpath(input.documents, parent=True),
        split=config["importance"]["split"],
        seed=config["seed"],
        grid=lambda wildcards: parameters.as_json(PLAN.grid(wildcards.proposal)),
        chosen=config["importance"]["instances"],
        instances=lambda wildcards: PLAN.cell(wildcards.shard)[0],
        samples=lambda wildcards: PLAN.cell(wildcards.shard)[1],
    shell:
        """
        python -m scripts.weigh \
            --model {params.model:q} \
            --proposal {params.proposal:q} \
            --corpus {params.corpus:q} \
            --split {params.split} \
            --name {wildcards.model}/{wildcards.proposal} \
            --seed {params.seed} \
            --temperature {wildcards.temperature} \
            --grid {params.grid:q} \
            --instances {params.chosen} \
            --first-instance {params.instances[0]} \
            --instance-count {params.instances[1]} \
            --first-sample {params.samples[0]} \
            --samples {params.samples[1]} \
            --threads {threads} \
            --device auto \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule search_beams:
    """Give log p of the latents that beam searches under a proposal end with."""
    input:
        documents=lambda wildcards: f"<results>/corpora/{PLAN.corpus(wildcards.model)}/documents.parquet",
        tables=lambda wildcards: RUN.models.tables(wildcards.model),
        model="<results>/models/{model}/model.json",
        proposal=lambda wildcards: f"<results>/models/{PLAN.trained_proposal(wildcards.proposal)}/model.json",
    output:
        ensure("<results>/beams/{model}/{proposal}/{shard}.parquet", non_empty=True),
    log:
        "<logs>/search_beams/{model}/{proposal}/{shard}.log",
    benchmark:
        "<benchmarks>/search_beams/{model}/{proposal}/{shard}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=growing(3000),
        runtime=90,
        gpu=1,
    params:
        code=lambda wildcards: fingerprint(
            "scripts/search_beams.py", *PLAN.code(wildcards.model, wildcards.proposal)
        ),
        model=subpath(input.model, parent=True),
        proposal=subpath(input.proposal, parent=True),
        corpus=subpath(input.documents, parent=True),
        split=config["importance"]["split"],
        seed=config["seed"],
        beams=parameters.as_json(config["importance"]["beams"]),
        chosen=config["importance"]["instances"],
        instances=lambda wildcards: PLAN.instance_range(int(wildcards.shard)),
    shell:
        """
        python -m scripts.search_beams \
            --model {params.model:q} \
            --proposal {params.proposal:q} \
            --corpus {params.corpus:q} \
            --split {params.split} \
            --name {wildcards.model}/{wildcards.proposal} \
            --seed {params.seed} \
            --beams {params.beams:q} \
            --instances {params.chosen} \
            --first-instance {params.instances[0]} \
            --instance-count {params.instances[1]} \
            --threads {threads} \
            --device auto \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule smc:
    """Estimate log p(x) by sequential Monte Carlo with a proposal."""
    input:
        documents=lambda wildcards: f"<results>/corpora/{PLAN.corpus(wildcards.model)}/documents.parquet",
        tables=lambda wildcards: RUN.models.tables(wildcards.model),
        model="<results>/models/{model}/model.json",
        proposal=lambda wildcards: f"<results>/models/{PLAN.trained_proposal(wildcards.proposal)}/model.json",
    output:
        ensure("<results>/smc/{model}/{proposal}/{shard}.parquet", non_empty=True),
    log:
        "<logs>/smc/{model}/{proposal}/{shard}.log",
    benchmark:
        "<benchmarks>/smc/{model}/{proposal}/{shard}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=growing(3000),
        runtime=90,
        gpu=1,
    params:
        code=lambda wildcards: fingerprint(
            "scripts/smc.py", *PLAN.code(wildcards.model, wildcards.proposal)
        ),
        model=subpath(input.model, parent=True),
        proposal=subpath(input.proposal, parent=True),
        corpus=subpath(input.documents, parent=True),
        split=config["importance"]["split"],
        seed=config["seed"],
        options=parameters.as_json(config["importance"]["smc"]),
        chosen=config["importance"]["instances"],
        instances=lambda wildcards: PLAN.instance_range(int(wildcards.shard)),
    shell:
        """
        python -m scripts.smc \
            --model {params.model:q} \
            --proposal {params.proposal:q} \
            --corpus {params.corpus:q} \
            --split {params.split} \
            --name {wildcards.model}/{wildcards.proposal} \
            --seed {params.seed} \
            --options {params.options:q} \
            --instances {params.chosen} \
            --first-instance {params.instances[0]} \
            --instance-count {params.instances[1]} \
            --threads {threads} \
            --device auto \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule reduce_weights:
    """Turn the weights of a proposal at all its temperatures into estimates, curves and diagnostics."""
    input:
        weights=lambda wildcards: PLAN.weight_files(wildcards.proposal),
        beams=lambda wildcards: PLAN.beam_files(wildcards.proposal),
        smc=lambda wildcards: PLAN.smc_files(wildcards.proposal),
    output:
        estimates=ensure(
            "<results>/estimates/{model}/{proposal}/estimates.parquet", non_empty=True
        ),
        curves="<results>/estimates/{model}/{proposal}/curves.parquet",
        replicates="<results>/estimates/{model}/{proposal}/replicates.parquet",
        diagnostics="<results>/estimates/{model}/{proposal}/diagnostics.parquet",
    log:
        "<logs>/reduce_weights/{model}/{proposal}.log",
    benchmark:
        "<benchmarks>/reduce_weights/{model}/{proposal}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=growing(1500),
        runtime=120,
    params:
        code=fingerprint("scripts/reduce_weights.py"),
        options=parameters.as_json(config["importance"]["reduction"]),
        seed=config["seed"],
    shell:
        """
        python -m scripts.reduce_weights \
            --weights {input.weights:q} \
            --beams {input.beams:q} \
            --smc {input.smc:q} \
            --options {params.options:q} \
            --seed {params.seed} \
            --estimates {output.estimates:q} \
            --curves {output.curves:q} \
            --replicates {output.replicates:q} \
            --diagnostics {output.diagnostics:q} \
            2>&1 | tee -a {log:q}
        """


rule describe_latents:
    """Describe the latent variables of one real instance, for the picture of them."""
    input:
        documents=lambda wildcards: f"<results>/corpora/{PLAN.corpus(wildcards.model)}/documents.parquet",
        tables=lambda wildcards: RUN.models.tables(wildcards.model),
        model="<results>/models/{model}/model.json",
        proposal=lambda wildcards: PLAN.first_proposal_file(wildcards.model),
    output:
        ensure("<results>/latents/{model}.json", non_empty=True),
    log:
        "<logs>/describe_latents/{model}.log",
    benchmark:
        "<benchmarks>/describe_latents/{model}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=20,
    params:
        code=lambda wildcards: fingerprint(
            "scripts/describe_latents.py",
            *PLAN.code(wildcards.model, PLAN.proposals_of(wildcards.model)[0]),
        ),
        model=subpath(input.model, parent=True),
        proposal=subpath(input.proposal, parent=True),
        corpus=subpath(input.documents, parent=True),
        split=config["importance"]["split"],
    shell:
        """
        python -m scripts.describe_latents \
            --model {params.model:q} \
            --proposal {params.proposal:q} \
            --corpus {params.corpus:q} \
            --split {params.split} \
            --name {wildcards.model} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """
