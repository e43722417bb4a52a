# Latents are drawn from proposals and weighed, shard by shard; the weights become estimates.
#
# requires  trained models with latent variables and proposals (train.smk), the tables of a corpus (corpus.smk)
# makes     <results>/corpora/{corpus}/graph.safetensors
#           <results>/draws/{draw}/{model}/{proposal}/{setting}/{instances}-{samples}.parquet
#           <results>/estimates/{model}/{proposal}/{estimates,curves,replicates,diagnostics,gaps}.parquet
#           <results>/choices/{draws,estimates}/...     the same of the validation split, where it chooses
#           <results>/beside/{model}/{beside}.parquet
#           <results>/latents/{model}.json
# steps     embed_graph -> train -> draw -> reduce_weights, score_beside, describe_latents -> tables and figures (report.smk)
#
# The ways to draw, weights and others, are the rows of beyond_perplexity/importance/ways_to_draw.py. A shard is
# a block of instances by a block of samples (of particles: runs), counted by their sizes: no job knows how
# many there are in all.


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
        mem_mb=doubling(2000),
        runtime=doubling(240),
    params:
        code=fingerprint("scripts/embed_graph.py"),
        corpus=subpath(input.documents, parent=True),
        options=as_json(config["importance"]["graph"]),
        preprocessing=option_of("corpora", "corpus", "preprocessing"),
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
        draws=whole(
            "<results>/{drawn}/{draw}/{model}/{proposal}/{setting}/{instances}-{samples}.parquet"
        ),
        costs="<benchmarks>/costs/{drawn}/{draw}/{model}/{proposal}/{setting}/{instances}-{samples}.parquet",
    log:
        "<logs>/{drawn}/{draw}/{model}/{proposal}/{setting}/{instances}-{samples}.log",
    benchmark:
        "<benchmarks>/{drawn}/{draw}/{model}/{proposal}/{setting}/{instances}-{samples}.jsonl"
    conda:
        "../envs/gpu.yaml"
    resources:
        mem_mb=memory("draw"),
        runtime=minutes("draw"),
        gpu=1,
    params:
        code=code_of("draw", pair_code),
        model=subpath(input.model, parent=True),
        proposal=subpath(input.proposal, parent=True),
        corpus=subpath(input.documents, parent=True),
        split=of(PLAN.split_of, "drawn"),
        seed=config["seed"],
        options=of(PLAN.draw_options, "draw", "proposal", "setting"),
        instances=of(PLAN.instance_range, "draw", "instances"),
        samples=of(PLAN.sample_range, "draw", "setting", "samples"),
    shell:
        """
        python -m scripts.draw \
            --draw {wildcards.draw} \
            --model {params.model:q} --proposal {params.proposal:q} \
            --corpus {params.corpus:q} \
            --split {params.split} --name {wildcards.model}/{wildcards.proposal} \
            --seed {params.seed} \
            --options {params.options:q} \
            --instances {params.instances} --samples {params.samples} \
            --threads {threads} --device auto \
            --output {output.draws:q} \
            --costs {output.costs:q} \
            2>&1 | tee -a {log:q}
        """


rule reduce_weights:
    """Turn the weights of a proposal at all its temperatures into estimates, curves and diagnostics."""
    input:
        unpack(of(PLAN.draws_of, "proposal", "reduced")),
    output:
        estimates=whole("<results>/{reduced}/{model}/{proposal}/estimates.parquet"),
        curves=whole("<results>/{reduced}/{model}/{proposal}/curves.parquet"),
        replicates=whole("<results>/{reduced}/{model}/{proposal}/replicates.parquet"),
        diagnostics=whole("<results>/{reduced}/{model}/{proposal}/diagnostics.parquet"),
        gaps=whole("<results>/{reduced}/{model}/{proposal}/gaps.parquet"),
    log:
        "<logs>/{reduced}/{model}/{proposal}.log",
    benchmark:
        "<benchmarks>/{reduced}/{model}/{proposal}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=memory("reduce_weights"),
        runtime=minutes("reduce_weights"),
    params:
        **all_in_ranges(REDUCED),
        code=code_of("reduce_weights", of(PLAN.reduction_code, "proposal")),
        options=as_json(config["importance"]["reduction"]),
        seed=config["seed"],
    shell:
        """
        python -m scripts.reduce_weights \
            DRAW_FLAGS \
            --options {params.options:q} \
            --seed {params.seed} \
            --estimates {output.estimates:q} \
            --curves {output.curves:q} \
            --replicates {output.replicates:q} \
            --diagnostics {output.diagnostics:q} \
            --gaps {output.gaps:q} \
            2>&1 | tee -a {log:q}
        """.replace("DRAW_FLAGS", DRAW_FLAGS)


rule score_beside:
    """Score the instances of a latent model under a model without latent variables."""
    input:
        documents=of(RUN.models.documents, "model"),
        tables=of(RUN.models.tables, "model"),
        latent="<results>/models/{model}/model.json",
        beside="<results>/models/{beside}/model.json",
    output:
        whole("<results>/beside/{model}/{beside}.parquet"),
    log:
        "<logs>/score_beside/{model}/{beside}.log",
    benchmark:
        "<benchmarks>/score_beside/{model}/{beside}.jsonl"
    conda:
        environment(beside_gpus)
    resources:
        mem_mb=memory("score_beside"),
        runtime=doubling(60),
        gpu=beside_gpus,
    params:
        code=code_of(
            "score_beside",
            of(RUN.models.code, "model"),
            of(RUN.models.code, "beside"),
        ),
        latent=subpath(input.latent, parent=True),
        beside=subpath(input.beside, parent=True),
        corpus=subpath(input.documents, parent=True),
        split=config["importance"]["split"],
        split_unit=of_corpus(RUN.corpora.split_unit),
        seed=config["seed"],
        instances=config["importance"]["instances"],
    shell:
        """
        python -m scripts.score_beside \
            --latent {params.latent:q} --model {params.beside:q} \
            --names {wildcards.model} {wildcards.beside} \
            --corpus {params.corpus:q} \
            --split {params.split} --split-unit {params.split_unit} \
            --seed {params.seed} --instances {params.instances} \
            --threads {threads} --device auto \
            --output {output:q} \
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
        mem_mb=memory("describe_latents"),
        runtime=doubling(20),
    params:
        code=code_of("describe_latents", pair_code),
        model=subpath(input.model, parent=True),
        proposal=subpath(input.proposal, parent=True),
        corpus=subpath(input.documents, parent=True),
        split=config["importance"]["split"],
    shell:
        """
        python -m scripts.describe_latents \
            --model {params.model:q} --proposal {params.proposal:q} \
            --corpus {params.corpus:q} \
            --split {params.split} --name {wildcards.model} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """
