# Texts are distorted and scored, shard by shard; the losses of score become contrastive entropies.
#
# requires  documents and a closed vocabulary (corpus.smk), trained models (train.smk), pairs of sentences that
#           are external
# makes     <results>/contrastive/{corpus}/scores/{model}/{units}-{draws}.parquet
#           <results>/contrastive/{corpus}/{model}.parquet
#           <results>/contrastive/{corpus}/differences.parquet
#           <results>/contrastive/pairs/{pairs}/{model}.parquet
#           <results>/partitions/{model}.{parquet,json}
# steps     train -> score_contrast -> measure_contrast, compare_contrast -> tables and figures (report.smk)
#
# A shard is a block of sentences by a block of draws, counted by their sizes: no job but the last knows how many
# there are in all.


rule score_contrast:
    """Score a block of documents, as they are and distorted, under one model."""
    input:
        documents=of(RUN.models.documents, "model"),
        model="<results>/models/{model}/model.json",
        substitutes=of(RUN.contrastive.substitutes, "model"),
    output:
        whole("<results>/contrastive/{corpus}/scores/{model}/{units}-{draws}.parquet"),
    log:
        "<logs>/score_contrast/{corpus}/{model}/{units}-{draws}.log",
    benchmark:
        "<benchmarks>/score_contrast/{corpus}/{model}/{units}-{draws}.jsonl"
    conda:
        environment(gpus)
    resources:
        mem_mb=memory("score_contrast"),
        runtime=minutes("score_contrast"),
        gpu=gpus,
    params:
        code=code_of("score_contrast", of(RUN.models.code, "model")),
        folder=subpath(input.model, parent=True),
        split=config["contrastive"]["split"],
        split_unit=of_corpus(RUN.corpora.split_unit),
        whole=of_corpus(RUN.contrastive.whole_flag),
        sentences=of(RUN.contrastive.sentence_range, "units"),
        limit=of(RUN.contrastive.limit, "units"),
        distortion=as_json(config["contrastive"]["distortion"]),
        versions=of(RUN.contrastive.versions, "draws"),
        parts_level=config["contrastive"]["parts_level"] or "",
        seed=config["seed"],
    shell:
        """
        python -m scripts.score_contrast {params.whole} \
            --model {params.folder:q} \
            --documents {input.documents:q} \
            --split {params.split} --split-unit {params.split_unit} \
            --sentences {params.sentences} --limit {params.limit} \
            --substitutes {input.substitutes:q} \
            --distortion {params.distortion:q} \
            --versions {params.versions:q} --parts-level {params.parts_level} \
            --seed {params.seed} --threads {threads} --device auto \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule measure_contrast:
    """Reduce the scores of a model to contrastive entropies, their ratios and the cross-entropy."""
    input:
        of(RUN.contrastive.score_files, "model"),
    output:
        whole("<results>/contrastive/{corpus}/{model}.parquet"),
    log:
        "<logs>/measure_contrast/{corpus}/{model}.log",
    benchmark:
        "<benchmarks>/measure_contrast/{corpus}/{model}.jsonl"
    wildcard_constraints:
        model="|".join(RUN.contrastive.models()) or NAME,  # not that of differences
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(1000),
        runtime=doubling(60),
    params:
        code=fingerprint("scripts/measure_contrast.py"),
        scores=in_ranges(),
        base_level=config["contrastive"]["base_level"],
    shell:
        """
        python -m scripts.measure_contrast {params.scores:q} \
            --model {wildcards.model} \
            --base-level {params.base_level} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule compare_contrast:
    """Compare the models of a corpus, pair by pair, on the same distorted texts."""
    input:
        of(RUN.contrastive.all_score_files, "corpus"),
    output:
        whole("<results>/contrastive/{corpus}/differences.parquet"),
    log:
        "<logs>/compare_contrast/{corpus}.log",
    benchmark:
        "<benchmarks>/compare_contrast/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(60),
    params:
        code=fingerprint("scripts/compare_contrast.py"),
        scores=in_ranges(),
        base_level=config["contrastive"]["base_level"],
    shell:
        """
        python -m scripts.compare_contrast {params.scores:q} \
            --base-level {params.base_level} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule score_pairs:
    """Score external pairs of a good and a bad sentence."""
    input:
        model="<results>/models/{model}/model.json",
        pairs=of(RUN.corpora.pairs_file, "pairs"),
    output:
        whole("<results>/contrastive/pairs/{pairs}/{model}.parquet"),
    log:
        "<logs>/score_pairs/{pairs}/{model}.log",
    benchmark:
        "<benchmarks>/score_pairs/{pairs}/{model}.jsonl"
    conda:
        environment(gpus)
    resources:
        mem_mb=memory("score_pairs"),
        runtime=doubling(60),
        gpu=gpus,
    params:
        code=code_of("contrast", of(RUN.models.code, "model")),
        folder=subpath(input.model, parent=True),
        tokenized=of(RUN.contrastive.pairs_flag, "pairs"),
    shell:
        """
        python -m beyond_perplexity contrast {params.tokenized} \
            --model {params.folder:q} \
            --pairs {input.pairs:q} --name {wildcards.model} \
            --threads {threads} --device auto \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule estimate_partition:
    """Estimate the perplexity of a model of sentences, given their lengths, which has no likelihood."""
    input:
        documents=of(RUN.models.documents, "model"),
        model="<results>/models/{model}/model.json",
        proposal=f"<results>/models/{config['contrastive']['partition']['proposal']}/model.json",
    output:
        lengths=whole("<results>/partitions/{model}.parquet"),
        summary=whole("<results>/partitions/{model}.json"),
    log:
        "<logs>/estimate_partition/{model}.log",
    benchmark:
        "<benchmarks>/estimate_partition/{model}.jsonl"
    conda:
        environment(gpus)
    resources:
        mem_mb=memory("estimate_partition"),
        runtime=doubling(120),
        gpu=gpus,
    params:
        code=code_of("estimate_partition", of(RUN.models.code, "model"), proposed),
        folder=subpath(input.model, parent=True),
        proposal=subpath(input.proposal, parent=True),
        split=config["contrastive"]["split"],
        split_unit=of_corpus(RUN.corpora.split_unit),
        whole=of_corpus(RUN.contrastive.whole_flag),
        sentences=config["contrastive"]["sentences"],
        options=RUN.contrastive.partition_options(),
        seed=config["seed"],
    shell:
        """
        python -m scripts.estimate_partition {params.whole} \
            --model {params.folder:q} \
            --proposal {params.proposal:q} \
            --documents {input.documents:q} \
            --split {params.split} --split-unit {params.split_unit} \
            --sentences {params.sentences} \
            --name {wildcards.model} \
            --options {params.options:q} \
            --seed {params.seed} --threads {threads} --device auto \
            --output {output.lengths:q} \
            --summary {output.summary:q} \
            2>&1 | tee -a {log:q}
        """
