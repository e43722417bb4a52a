# Models write documents, shard by shard; samples that were brought join them.
#
# requires  trained models (train.smk), the files of config["external_samples"]
# makes     <results>/samples/{model}/{decoding}/{shard}.parquet
#           <results>/samples/external/{external}/00000.parquet
# steps     generate | import_samples


rule generate:
    """Draw one shard of documents from a model."""
    wildcard_constraints:
        model=f"(?!external/){NAME}",
    input:
        model="<results>/models/{model}/model.json",
        weights="<results>/models/{model}/model.safetensors",
    output:
        ensure("<results>/samples/{model}/{decoding}/{shard}.parquet", non_empty=True),
    params:
        code=lambda wildcards: fingerprint(
            "scripts/generate.py", RUN.model_code(wildcards.model)
        ),
        folder=subpath(input.model, parent=True),
        decoding=lambda wildcards: lookups.as_json(
            config["decodings"][wildcards.decoding]
        ),
        seed=config["seed"],
        first=lambda wildcards: RUN.shard_range(wildcards.shard)[0],
        count=lambda wildcards: RUN.shard_range(wildcards.shard)[1],
        maximum_length=config["generation"]["maximum_length"],
    log:
        "<logs>/generate/{model}/{decoding}/{shard}.log",
    benchmark:
        "<benchmarks>/generate/{model}/{decoding}/{shard}.jsonl"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=90,
        gpu=gpus,
    shell:
        """
        python -m scripts.generate \
            --model {params.folder:q} \
            --decoding {params.decoding:q} \
            --name {wildcards.model}/{wildcards.decoding} \
            --seed {params.seed} \
            --first {params.first} \
            --count {params.count} \
            --maximum-length {params.maximum_length} \
            --threads {threads} \
            --device auto \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule import_samples:
    """Read and tokenize samples that were brought, one document a line."""
    input:
        lambda wildcards: RUN.local_path(
            config["external_samples"][wildcards.external]["path"]
        ),
    output:
        ensure("<results>/samples/external/{external}/00000.parquet", non_empty=True),
    params:
        code=fingerprint("scripts/import_samples.py"),
        format=lambda wildcards: config["external_samples"][wildcards.external][
            "format"
        ],
        preprocessing=lambda wildcards: lookups.as_json(
            config["external_samples"][wildcards.external]["preprocessing"]
        ),
    log:
        "<logs>/import_samples/{external}.log",
    benchmark:
        "<benchmarks>/import_samples/{external}.jsonl"
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=60,
    shell:
        """
        python -m scripts.import_samples \
            --input {input:q} \
            --format {params.format} \
            --preprocessing {params.preprocessing:q} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """
