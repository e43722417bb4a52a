# Models are trained and scored; one rule trains any family.
#
# requires  documents, a vocabulary, and a speller of a closed one (corpus.smk); a huggingface model, if it
#           is in a folder, and the documents before cleaning to score it on
# makes     <results>/models/{model}/{model.safetensors,model.json,vocabulary.json,training.parquet}
#           <results>/perplexity/{model}.{json,parquet}
#           <results>/perplexity_differences/{corpus}.parquet
# steps     train -> measure_perplexity -> compare_perplexity
#
# Checkpoints of a training lie in <results>/checkpoints/{model}, which no rule declares, so that a killed
# job goes on where it was.


rule train:
    """Train one model, or go on with a training that was interrupted."""
    input:
        documents=documents_of_model,
        vocabulary=lambda wildcards: RUN.models.vocabulary_files(wildcards.model),
        brought=lambda wildcards: RUN.models.brought_files(wildcards.model),
        tables=lambda wildcards: RUN.models.tables(wildcards.model),
        wake=lambda wildcards: RUN.models.wake_files(wildcards.model),
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
        code=training_code,
        config=lambda wildcards: RUN.models.options(wildcards.model),
        preprocessing=lambda wildcards: RUN.models.preprocessing(wildcards.model),
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
            --seed {params.seed} \
            --threads {threads} \
            --device auto \
            --output {params.folder:q} \
            --checkpoints {params.checkpoints:q} \
            2>&1 | tee -a {log:q}
        """


rule measure_perplexity:
    """Score a split under a model: perplexity in all its definitions, and a row a document."""
    input:
        documents=documents_of_model,
        raw=lambda wildcards: RUN.models.raw_texts(wildcards.model),
        model="<results>/models/{model}/model.json",
        speller=lambda wildcards: RUN.models.speller_files(wildcards.model),
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
        code=family_fingerprint("scripts/measure_perplexity.py"),
        folder=subpath(input.model, parent=True),
        split=config["perplexity"]["split"],
        split_unit=lambda wildcards: RUN.models.split_unit(wildcards.model),
    shell:
        """
        python -m scripts.measure_perplexity \
            --model {params.folder:q} \
            --documents {input.documents:q} \
            --raw {input.raw:q} \
            --split {params.split} \
            --split-unit {params.split_unit} \
            --speller {input.speller:q} \
            --threads {threads} \
            --device auto \
            --output {output.summary:q} \
            --per-document {output.documents:q} \
            2>&1 | tee -a {log:q}
        """


rule compare_perplexity:
    """Compare the models of a corpus, pair by pair, on the documents that all are scored on."""
    input:
        lambda wildcards: expand(
            "<results>/perplexity/{model}.parquet",
            model=RUN.models.scored(wildcards.corpus),
        ),
    output:
        whole("<results>/perplexity_differences/{corpus}.parquet"),
    log:
        "<logs>/compare_perplexity/{corpus}.log",
    benchmark:
        "<benchmarks>/compare_perplexity/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=lasting(30),
    params:
        code=fingerprint("scripts/compare_perplexity.py"),
        seed=config["seed"],
    shell:
        """
        python -m scripts.compare_perplexity {input:q} \
            --leave-out-infinite \
            --seed {params.seed} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """
