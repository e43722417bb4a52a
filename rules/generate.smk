# Models write documents, shard by shard; external samples join them.
#
# requires  trained models (train.smk), the files of config["external_samples"]
# makes     <results>/samples/{model}/{decoding}/{shard}.parquet
#           <results>/prompts/{model}/{decoding}/{answers,measures,sensitivity}.parquet, where models continue prompts
#           <results>/samples/external/{external}/00000.parquet
# steps     generate | continue_prompts | import_samples

GENERATING = {
    "decoding": of(RUN.samples.decoding_options, "decoding"),
    "maximum_length": config["generation"]["maximum_length"],
    "precision": config["generation"]["precision"],
}


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
        # a missing file of external samples is no reason to look for such a model
        model=f"(?!{EXTERNAL}/){NAME}",
    conda:
        environment(gpus)
    resources:
        mem_mb=memory("generate"),
        runtime=minutes("generate"),
        gpu=gpus,
    params:
        **GENERATING,
        code=code_of("generate", of(RUN.samples.generating_code, "model", "decoding")),
        folder=subpath(input.model, parent=True),
        seed=config["seed"],
        documents=of(RUN.samples.shard_range, "shard"),
    shell:
        """
        python -m scripts.generate \
            --model {params.folder:q} \
            --decoding {params.decoding:q} \
            --name {wildcards.model}/{wildcards.decoding} \
            --seed {params.seed} \
            --first {params.documents[0]} --count {params.documents[1]} \
            --maximum-length {params.maximum_length} --precision {params.precision} \
            --memory-mb {resources.mem_mb} \
            --threads {threads} --device auto \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule import_samples:
    """Read and tokenize external samples, one document a line."""
    input:
        of(RUN.corpora.external_file, "external"),
    output:
        whole("<results>/samples/external/{external}/00000.parquet"),
    log:
        "<logs>/import_samples/{external}.log",
    benchmark:
        "<benchmarks>/import_samples/{external}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(1000),
        runtime=doubling(60),
    params:
        code=code_of("import_samples", of(RUN.corpora.external_code, "external")),
        format=of(RUN.corpora.external_format, "external"),
        field=of(RUN.corpora.external_field, "external"),
        preprocessing=option_of("external_samples", "external", "preprocessing"),
    shell:
        """
        python -m scripts.import_samples \
            --input {input:q} \
            --format {params.format} --field {params.field:q} \
            --preprocessing {params.preprocessing:q} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule continue_prompts:
    """Let a model continue human prompts, and compare it with how people went on."""
    input:
        documents=of(RUN.models.documents, "model"),
        raw=of(RUN.models.raw_texts, "model"),
        model="<results>/models/{model}/model.json",
        weights="<results>/models/{model}/model.safetensors",
        vocabulary=of(RUN.samples.body_vocabulary, "model", "decoding"),
        stop_words=RUN.corpora.stop_word_files(),
    output:
        answers=whole("<results>/prompts/{model}/{decoding}/answers.parquet"),
        measures=whole("<results>/prompts/{model}/{decoding}/measures.parquet"),
        sensitivity=whole("<results>/prompts/{model}/{decoding}/sensitivity.parquet"),
    log:
        "<logs>/continue_prompts/{model}/{decoding}.log",
    benchmark:
        "<benchmarks>/continue_prompts/{model}/{decoding}.jsonl"
    conda:
        environment(gpus)
    resources:
        mem_mb=doubling(4000),
        runtime=doubling(60),
        gpu=gpus,
    params:
        **COMPARING,
        **GENERATING,
        code=code_of(
            "continue_prompts", of(RUN.samples.continuing_code, "model", "decoding")
        ),
        folder=subpath(input.model, parent=True),
        prompts=config["generation"]["prompts"],
    shell:
        """
        python -m scripts.continue_prompts \
            --model {params.folder:q} \
            --documents {input.documents:q} --raw {input.raw:q} \
            --tokens {params.prompts[tokens]} --count {params.prompts[documents]} \
            --decoding {params.decoding:q} --name {wildcards.model}/{wildcards.decoding} \
            --seed {params.seed} --maximum-length {params.maximum_length} --precision {params.precision} \
            --vocabulary {input.vocabulary:q} --group-column {params.group_column} \
            --maximum-tokens {params.maximum_tokens} --minimum-tokens {params.minimum_tokens} \
            --stop-words {params.stop_words:q} {params.symbols} \
            --options {params.options:q} --threads {threads} --device auto \
            --answers {output.answers:q} --measures {output.measures:q} --sensitivity {output.sensitivity:q} \
            2>&1 | tee -a {log:q}
        """
