# Models are trained and scored; one rule trains any family.
#
# requires  documents, a vocabulary, and a spelling model of a closed one (corpus.smk); a huggingface model, if it
#           is in a folder, and the documents before cleaning to score it on
# makes     <results>/models/{model}/{model.safetensors,model.json,vocabulary.json,training.parquet}
#           <results>/perplexity/{model}.{json,parquet}
#           <results>/perplexity_differences/{corpus}.parquet
#           <results>/perplexity_tokens/{model}.parquet, <results>/perplexity_parts/{corpus}.parquet
# steps     train -> measure_perplexity -> compare_perplexity; train -> score_tokens -> split_differences
#
# Checkpoints of a training lie in <results>/checkpoints/{model}, which no rule declares, so that a killed
# job goes on where it was.


rule train:
    """Train one model, or go on with a training that was interrupted."""
    input:
        documents=of(RUN.models.documents, "model"),
        vocabulary=of(RUN.models.vocabulary_files, "model"),
        external=of(RUN.models.external_files, "model"),
        tables=of(RUN.models.tables, "model"),
        wake=of(RUN.models.wake_files, "model"),
    output:
        weights=whole("<results>/models/{model}/model.safetensors"),
        description=whole("<results>/models/{model}/model.json"),
        vocabulary=whole("<results>/models/{model}/vocabulary.json"),
        training="<results>/models/{model}/training.parquet",
    log:
        "<logs>/train/{model}.log",
    benchmark:
        "<benchmarks>/train/{model}.jsonl"
    conda:
        environment(gpus)
    resources:
        mem_mb=memory("train"),
        runtime=minutes("train"),
        gpu=gpus,
    params:
        code=code_of("train", of(RUN.models.training_code, "model")),
        config=of(RUN.models.options, "model"),
        preprocessing=of(RUN.models.preprocessing, "model"),
        seed=config["seed"],
        folder=subpath(output.description, parent=True),
        checkpoints=f"{RUN.results}/checkpoints/{{model}}",
    shell:
        """
        python -m scripts.train \
            --documents {input.documents:q} \
            --vocabulary {input.vocabulary:q} \
            --config {params.config:q} \
            --preprocessing {params.preprocessing:q} \
            --wake {input.wake:q} \
            --seed {params.seed} --threads {threads} --device auto \
            --output {params.folder:q} \
            --checkpoints {params.checkpoints:q} \
            2>&1 | tee -a {log:q}
        """


rule measure_perplexity:
    """Score a split under a model: perplexity in all its definitions, and a row a document."""
    input:
        documents=of(RUN.models.documents, "model"),
        raw=of(RUN.models.raw_texts, "model"),
        model="<results>/models/{model}/model.json",
        spelling_model=of(RUN.models.spelling_model_files, "model"),
    output:
        summary=whole("<results>/perplexity/{model}.json"),
        documents=whole("<results>/perplexity/{model}.parquet"),
    log:
        "<logs>/measure_perplexity/{model}.log",
    benchmark:
        "<benchmarks>/measure_perplexity/{model}.jsonl"
    conda:
        environment(gpus)
    resources:
        mem_mb=memory("measure_perplexity"),
        runtime=minutes("measure_perplexity"),
        gpu=gpus,
    params:
        code=code_of("measure_perplexity", of(RUN.models.code, "model")),
        folder=subpath(input.model, parent=True),
        split=config["perplexity"]["split"],
        split_unit=of_corpus(RUN.corpora.split_unit),
    shell:
        """
        python -m scripts.measure_perplexity \
            --model {params.folder:q} \
            --documents {input.documents:q} \
            --raw {input.raw:q} \
            --split {params.split} \
            --split-unit {params.split_unit} \
            --spelling-model {input.spelling_model:q} \
            --threads {threads} --device auto \
            --output {output.summary:q} \
            --per-document {output.documents:q} \
            2>&1 | tee -a {log:q}
        """


rule compare_perplexity:
    """Compare the models of a corpus, pair by pair, on the documents that all are scored on."""
    input:
        of(RUN.relations.perplexity_files, "corpus"),
    output:
        whole("<results>/perplexity_differences/{corpus}.parquet"),
    log:
        "<logs>/compare_perplexity/{corpus}.log",
    benchmark:
        "<benchmarks>/compare_perplexity/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(30),
    params:
        code=fingerprint("beyond_perplexity/library/compare_perplexity.py"),
    shell:
        """
        python -m beyond_perplexity compare-perplexity {input:q} \
            --leave-out-infinite \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule score_tokens:
    """Score every token of a split under a model."""
    input:
        documents=of(RUN.models.documents, "model"),
        model="<results>/models/{model}/model.json",
    output:
        whole("<results>/perplexity_tokens/{model}.parquet"),
    log:
        "<logs>/score_tokens/{model}.log",
    benchmark:
        "<benchmarks>/score_tokens/{model}.jsonl"
    conda:
        environment(gpus)
    resources:
        mem_mb=memory("measure_perplexity"),
        runtime=minutes("measure_perplexity"),
        gpu=gpus,
    params:
        code=code_of("score_tokens", of(RUN.models.code, "model")),
        folder=subpath(input.model, parent=True),
        split=config["perplexity"]["split"],
        split_unit=of_corpus(RUN.corpora.split_unit),
    shell:
        """
        python -m scripts.score_tokens \
            --model {params.folder:q} --documents {input.documents:q} \
            --split {params.split} --split-unit {params.split_unit} \
            --threads {threads} --device auto --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule split_differences:
    """Split the differences of models by kinds of words, places and documents."""
    input:
        of(RUN.models.token_files, "corpus"),
    output:
        whole("<results>/perplexity_parts/{corpus}.parquet"),
    log:
        "<logs>/split_differences/{corpus}.log",
    benchmark:
        "<benchmarks>/split_differences/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(3000),
        runtime=doubling(30),
    params:
        code=fingerprint("scripts/split_differences.py"),
    shell:
        """
        python -m scripts.split_differences {input:q} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """
