# Models write documents, shard by shard; samples that were brought join them.
#
# requires  trained models (train.smk), the files of config["external_samples"]
# makes     <results>/samples/{model}/{decoding}/{shard}.parquet
#           <results>/samples/external/{external}/00000.parquet
# steps     generate | import_samples


rule generate:
    """Draw one shard of documents from a model."""
    input:
        model="<results>/models/{model}/model.json",
        weights="<results>/models/{model}/model.safetensors",
    output:
        whole("<results>/samples/{model}/{decoding}/{shard}.parquet"),
    log:
        "<logs>/generate/{model}/{decoding}/{shard}.log",
    benchmark:
        "<benchmarks>/generate/{model}/{decoding}/{shard}.jsonl"
    wildcard_constraints:
        # a missing file of samples that were brought is no reason to look for such a model
        model=f"(?!{EXTERNAL}/){NAME}",
    conda:
        environment(gpus)
    resources:
        mem_mb=memory("generate"),
        runtime=minutes("generate"),
        gpu=gpus,
    params:
        code=generating_code,
        folder=subpath(input.model, parent=True),
        decoding=lambda wildcards: RUN.samples.decoding_options(wildcards.decoding),
        seed=config["seed"],
        documents=lambda wildcards: RUN.samples.shard_range(wildcards.shard),
        maximum_length=config["generation"]["maximum_length"],
        precision=config["generation"]["precision"],
    shell:
        """
        python -m scripts.generate \
            --model {params.folder:q} \
            --decoding {params.decoding:q} \
            --name {wildcards.model}/{wildcards.decoding} \
            --seed {params.seed} \
            --first {params.documents[0]} \
            --count {params.documents[1]} \
            --maximum-length {params.maximum_length} \
            --memory-mb {resources.mem_mb} \
            --precision {params.precision} \
            --threads {threads} \
            --device auto \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule import_samples:
    """Read and tokenize samples that were brought, one document a line."""
    input:
        lambda wildcards: RUN.corpora.local_path(
            config["external_samples"][wildcards.external]["path"]
        ),
    output:
        whole("<results>/samples/external/{external}/00000.parquet"),
    log:
        "<logs>/import_samples/{external}.log",
    benchmark:
        "<benchmarks>/import_samples/{external}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(1000),
        runtime=lasting(60),
    params:
        code=lambda wildcards: fingerprint(
            "scripts/import_samples.py", RUN.corpora.external_code(wildcards.external)
        ),
        format=lambda wildcards: RUN.corpora.external_format(wildcards.external),
        field=lambda wildcards: RUN.corpora.external_field(wildcards.external),
        preprocessing=lambda wildcards: parameters.as_json(
            config["external_samples"][wildcards.external]["preprocessing"]
        ),
    shell:
        """
        python -m scripts.import_samples \
            --input {input:q} \
            --format {params.format} \
            --field {params.field:q} \
            --preprocessing {params.preprocessing:q} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """
