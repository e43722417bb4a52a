# Models are trained and scored; one rule trains any family.
#
# requires  documents and a vocabulary (corpus.smk); a huggingface model, if it is in a folder
# makes     <results>/models/{model}/{model.safetensors,model.json,vocabulary.json,training.parquet}
#           <results>/perplexity/{model}.json
# steps     train -> measure_perplexity
#
# Checkpoints of a training lie in <results>/checkpoints/{model}, which no rule declares, so that a killed
# job goes on where it was.


rule train:
    """Train one model, or go on with a training that was interrupted."""
    input:
        documents=lambda wildcards: f"<results>/corpora/{RUN.model(wildcards.model)['corpus']}/documents.parquet",
        vocabulary=lambda wildcards: RUN.vocabulary_files(wildcards.model),
        brought=lambda wildcards: RUN.brought_files(wildcards.model),
        tables=lambda wildcards: RUN.model_tables(wildcards.model),
    output:
        weights=ensure("<results>/models/{model}/model.safetensors", non_empty=True),
        description=ensure("<results>/models/{model}/model.json", non_empty=True),
        vocabulary=ensure("<results>/models/{model}/vocabulary.json", non_empty=True),
        training="<results>/models/{model}/training.parquet",
    log:
        "<logs>/train/{model}.log",
    benchmark:
        "<benchmarks>/train/{model}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=growing(3000),
        runtime=1440,
        gpu=gpus,
    params:
        code=lambda wildcards: fingerprint(
            "scripts/train.py", *RUN.model_code(wildcards.model)
        ),
        vocabulary=lambda wildcards, input: lookups.optional_flag(
            "--vocabulary", input.vocabulary
        ),
        config=lambda wildcards: RUN.model_options(wildcards.model),
        preprocessing=lambda wildcards: RUN.preprocessing(wildcards.model),
        seed=config["seed"],
        folder=subpath(output.description, parent=True),
        checkpoints=f"{RUN.results}/checkpoints/{{model}}",
    shell:
        """
        python -m scripts.train \
            --documents {input.documents:q} \
            {params.vocabulary} \
            --config {params.config:q} \
            --preprocessing {params.preprocessing:q} \
            --seed {params.seed} \
            --threads {threads} \
            --device auto \
            --output {params.folder:q} \
            --checkpoints {params.checkpoints:q} \
            2>&1 | tee -a {log:q}
        """


rule measure_perplexity:
    """Score a split under a model: perplexity in all its definitions."""
    input:
        documents=lambda wildcards: f"<results>/corpora/{RUN.model(wildcards.model)['corpus']}/documents.parquet",
        model="<results>/models/{model}/model.json",
    output:
        ensure("<results>/perplexity/{model}.json", non_empty=True),
    log:
        "<logs>/measure_perplexity/{model}.log",
    benchmark:
        "<benchmarks>/measure_perplexity/{model}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=growing(3000),
        runtime=60,
        gpu=gpus,
    params:
        code=lambda wildcards: fingerprint(
            "scripts/measure_perplexity.py", *RUN.model_code(wildcards.model)
        ),
        folder=subpath(input.model, parent=True),
        split=config["perplexity"]["split"],
    shell:
        """
        python -m scripts.measure_perplexity \
            --model {params.folder:q} \
            --documents {input.documents:q} \
            --split {params.split} \
            --threads {threads} \
            --device auto \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """
