# Latents are drawn from proposals and weighed, shard by shard; the weights become estimates.
#
# requires  trained models with latent variables and proposals (train.smk), the tables of a corpus (corpus.smk)
# makes     <results>/corpora/{corpus}/graph.safetensors
#           <results>/draws/{draw}/{model}/{proposal}/{setting}/{instances}-{samples}.parquet
#           <results>/estimates/{model}/{proposal}/{estimates,curves,replicates,diagnostics}.parquet
#           <results>/latents/{model}.json, <results>/tables/importance/, <results>/figures/importance/
# steps     embed_graph -> train -> draw -> reduce_weights, describe_latents -> report_importance
#
# The ways to draw, weights and others, are the rows of beyond_perplexity/importance/drawing/draws.py. A shard is
# a block of instances by a block of samples, counted by their sizes: no job knows how many there are in all.


rule embed_graph:
    """Train embeddings of the entities and relations of a corpus' knowledge graph."""
    input:
        documents="<results>/corpora/{corpus}/documents.parquet",
        mentions="<results>/corpora/{corpus}/mentions.parquet",
        graph="<results>/corpora/{corpus}/knowledge_graph.parquet",
        aliases="<results>/corpora/{corpus}/aliases.parquet",
    output:
        whole("<results>/corpora/{corpus}/graph.safetensors"),
    log:
        "<logs>/embed_graph/{corpus}.log",
    benchmark:
        "<benchmarks>/embed_graph/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
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


rule draw:
    """Draw from a proposal, in one of several ways, for one block of instances and samples."""
    input:
        unpack(pair_files),
    output:
        whole(
            "<results>/draws/{draw}/{model}/{proposal}/{setting}/{instances}-{samples}.parquet"
        ),
    log:
        "<logs>/draw/{draw}/{model}/{proposal}/{setting}/{instances}-{samples}.log",
    benchmark:
        "<benchmarks>/draw/{draw}/{model}/{proposal}/{setting}/{instances}-{samples}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(3000),
        runtime=90,
        gpu=1,
    params:
        code=pair_fingerprint("scripts/draw.py"),
        model=subpath(input.model, parent=True),
        proposal=subpath(input.proposal, parent=True),
        corpus=subpath(input.documents, parent=True),
        split=config["importance"]["split"],
        seed=config["seed"],
        options=lambda w: PLAN.draw_options(w.draw, w.proposal, w.setting),
        instances=lambda wildcards: PLAN.instance_range(wildcards.instances),
        samples=lambda wildcards: PLAN.sample_range(wildcards.draw, wildcards.samples),
    shell:
        """
        python -m scripts.draw \
            --draw {wildcards.draw} \
            --model {params.model:q} \
            --proposal {params.proposal:q} \
            --corpus {params.corpus:q} \
            --split {params.split} \
            --name {wildcards.model}/{wildcards.proposal} \
            --seed {params.seed} \
            --options {params.options:q} \
            --instances {params.instances} \
            --samples {params.samples} \
            --threads {threads} \
            --device auto \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule reduce_weights:
    """Turn the weights of a proposal at all its temperatures into estimates, curves and diagnostics."""
    input:
        weights=lambda wildcards: PLAN.draw_files("weights", wildcards.proposal),
        log_q=lambda wildcards: PLAN.draw_files("log_q", wildcards.proposal),
        beams=lambda wildcards: PLAN.draw_files("beams", wildcards.proposal),
        smc=lambda wildcards: PLAN.draw_files("smc", wildcards.proposal),
    output:
        estimates=whole("<results>/estimates/{model}/{proposal}/estimates.parquet"),
        curves="<results>/estimates/{model}/{proposal}/curves.parquet",
        replicates="<results>/estimates/{model}/{proposal}/replicates.parquet",
        diagnostics="<results>/estimates/{model}/{proposal}/diagnostics.parquet",
    log:
        "<logs>/reduce_weights/{model}/{proposal}.log",
    benchmark:
        "<benchmarks>/reduce_weights/{model}/{proposal}.jsonl"
    conda:
        "../envs/cpu.yaml"
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
            --log-q {input.log_q:q} \
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
        unpack(pair_files),
    output:
        whole("<results>/latents/{model}.json"),
    log:
        "<logs>/describe_latents/{model}.log",
    benchmark:
        "<benchmarks>/describe_latents/{model}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=20,
    params:
        code=pair_fingerprint("scripts/describe_latents.py"),
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


rule report_importance:
    """Lay out the tables and draw the figures of importance sampling."""
    input:
        estimates=PLAN.estimate_files("estimates"),
        curves=PLAN.estimate_files("curves"),
        replicates=PLAN.estimate_files("replicates"),
        latents=expand("<results>/latents/{model}.json", model=PLAN.models()),
    output:
        tables=report(
            expand(
                "<results>/tables/importance/table_{table}.html",
                table=IMPORTANCE_TABLES,
            ),
            caption="report/importance.rst",
            category="Importance sampling",
        ),
        figures=report(
            expand(
                "<results>/figures/importance/figure_{figure}.svg",
                figure=IMPORTANCE_FIGURES,
            ),
            caption="report/importance.rst",
            category="Importance sampling",
        ),
        others=expand(
            "<results>/tables/importance/table_{table}.{suffix}",
            table=IMPORTANCE_TABLES,
            suffix=["csv", "tex"],
        )
        + expand(
            "<results>/figures/importance/figure_{figure}.pdf",
            figure=IMPORTANCE_FIGURES,
        ),
    log:
        "<logs>/report_importance.log",
    benchmark:
        "<benchmarks>/report_importance.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=20,
    params:
        code=fingerprint("scripts/report_importance.py"),
        families=parameters.as_json(PLAN.families()),
        data=parameters.as_json(PLAN.data()),
        tables=lambda wildcards, output: os.path.dirname(output.tables[0]),
        figures=lambda wildcards, output: os.path.dirname(output.figures[0]),
    shell:
        """
        python -m scripts.report_importance \
            --estimates {input.estimates:q} \
            --curves {input.curves:q} \
            --replicates {input.replicates:q} \
            --latents {input.latents:q} \
            --families {params.families:q} \
            --data {params.data:q} \
            --tables {params.tables:q} \
            --figures {params.figures:q} \
            2>&1 | tee -a {log:q}
        """
