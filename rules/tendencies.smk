# Documents become sufficient statistics, statistics become distances and tests.
#
# requires  documents (corpus.smk), samples (generate.smk)
# makes     <results>/statistics/{model}/{decoding}/{shard,merged}.parquet
#           <results>/references/{corpus}/statistics.parquet, <results>/references/{corpus}/resamples/{resample}/statistics.parquet
#           <results>/tendencies/{model}/{decoding}/{measures,sample_size,curves}.parquet
#           <results>/references/{corpus}/{curves,sensitivity}.parquet
# steps     count -> merge -> measure


rule count_samples:
    """Count one shard of samples: unigrams, types, lengths, stop words, symbols."""
    input:
        text="<results>/samples/{model}/{decoding}/{shard}.parquet",
        stop_words=RUN.corpora.stop_word_files(),
    output:
        whole("<results>/statistics/{model}/{decoding}/{shard}.parquet"),
    log:
        "<logs>/count_samples/{model}/{decoding}/{shard}.log",
    benchmark:
        "<benchmarks>/count_samples/{model}/{decoding}/{shard}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=30,
    params:
        code=RUN.samples.counting_code("scripts/count_statistics.py"),
        kind="samples",
        split=[],
        resample=[],
        as_large_as=[],
        seed=[],
        stop_words=RUN.corpora.stop_words(),
        symbols=RUN.samples.symbols_flag(),
    shell:
        """
        python -m scripts.count_statistics \
            --input {input.text:q} \
            --kind {params.kind} \
            --split {params.split} \
            --resample {params.resample} \
            --size-of-split {params.as_large_as} \
            --seed {params.seed} \
            --stop-words {params.stop_words:q} \
            {params.symbols} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


use rule count_samples as count_reference with:
    input:
        text="<results>/corpora/{corpus}/documents.parquet",
        stop_words=RUN.corpora.stop_word_files(),
    output:
        whole("<results>/references/{corpus}/statistics.parquet"),
    log:
        "<logs>/count_reference/{corpus}.log",
    benchmark:
        "<benchmarks>/count_reference/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
    params:
        code=RUN.samples.counting_code("scripts/count_statistics.py"),
        kind="documents",
        split="test",
        resample=[],
        as_large_as=[],
        seed=[],
        stop_words=RUN.corpora.stop_words(),
        symbols=RUN.samples.symbols_flag(),


use rule count_samples as count_resample with:
    input:
        text="<results>/corpora/{corpus}/documents.parquet",
        stop_words=RUN.corpora.stop_word_files(),
    output:
        whole("<results>/references/{corpus}/resamples/{resample}/statistics.parquet"),
    log:
        "<logs>/count_resample/{corpus}/{resample}.log",
    benchmark:
        "<benchmarks>/count_resample/{corpus}/{resample}.jsonl"
    conda:
        "../envs/cpu.yaml"
    params:
        code=RUN.samples.counting_code("scripts/count_statistics.py"),
        kind="documents",
        split="train",
        resample=lambda wildcards: int(wildcards.resample),
        as_large_as="test",
        seed=config["seed"],
        stop_words=RUN.corpora.stop_words(),
        symbols=RUN.samples.symbols_flag(),


rule merge_statistics:
    """Add the shards of a body of text up."""
    input:
        shards_of("<results>/statistics/{model}/{decoding}/{shard}.parquet"),
    output:
        whole("<results>/statistics/{model}/{decoding}/merged.parquet"),
    log:
        "<logs>/merge_statistics/{model}/{decoding}.log",
    benchmark:
        "<benchmarks>/merge_statistics/{model}/{decoding}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=30,
    params:
        code=fingerprint("scripts/merge_statistics.py"),
    shell:
        """
        python -m scripts.merge_statistics \
            --inputs {input:q} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule measure_tendencies:
    """Fit, measure and test a body of text, and random subsets of it, against its test split."""
    input:
        reference=of_its_corpus("<results>/references/{corpus}/statistics.parquet"),
        samples="<results>/statistics/{model}/{decoding}/merged.parquet",
        reference_documents=of_its_corpus(
            "<results>/corpora/{corpus}/documents.parquet"
        ),
        sample_documents=shards_of(
            "<results>/samples/{model}/{decoding}/{shard}.parquet"
        ),
    output:
        measures=whole("<results>/tendencies/{model}/{decoding}/measures.parquet"),
        sample_size=whole("<results>/tendencies/{model}/{decoding}/sample_size.parquet"),
        curves=whole("<results>/tendencies/{model}/{decoding}/curves.parquet"),
    log:
        "<logs>/measure_tendencies/{model}/{decoding}.log",
    benchmark:
        "<benchmarks>/measure_tendencies/{model}/{decoding}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=240,
    params:
        code=fingerprint("scripts/measure_tendencies.py"),
        options=parameters.as_json(config["tendencies"]["measurement"]),
        sample_size=parameters.as_json(config["tendencies"]["sample_size"]),
        seed=config["seed"],
    shell:
        """
        python -m scripts.measure_tendencies \
            --reference-statistics {input.reference:q} \
            --sample-statistics {input.samples:q} \
            --reference-documents {input.reference_documents:q} \
            --reference-split test \
            --sample-documents {input.sample_documents:q} \
            --source {wildcards.model}/{wildcards.decoding} \
            --options {params.options:q} \
            --sample-size-options {params.sample_size:q} \
            --seed {params.seed} \
            --measures {output.measures:q} \
            --sample-size {output.sample_size:q} \
            --curves {output.curves:q} \
            2>&1 | tee -a {log:q}
        """


rule describe_reference:
    """Draw the curves of the test split itself."""
    input:
        "<results>/references/{corpus}/statistics.parquet",
    output:
        whole("<results>/references/{corpus}/curves.parquet"),
    log:
        "<logs>/describe_reference/{corpus}.log",
    benchmark:
        "<benchmarks>/describe_reference/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=30,
    params:
        code=fingerprint("scripts/measure_tendencies.py"),
        options=parameters.as_json(config["tendencies"]["measurement"]),
    shell:
        """
        python -m scripts.measure_tendencies \
            --reference-statistics {input:q} \
            --source reference \
            --options {params.options:q} \
            --curves {output:q} \
            2>&1 | tee -a {log:q}
        """


rule measure_sensitivity:
    """Find the smallest shift of each tendency that 1k to 1M documents detect."""
    input:
        statistics="<results>/references/{corpus}/statistics.parquet",
        documents="<results>/corpora/{corpus}/documents.parquet",
    output:
        whole("<results>/references/{corpus}/sensitivity.parquet"),
    log:
        "<logs>/measure_sensitivity/{corpus}.log",
    benchmark:
        "<benchmarks>/measure_sensitivity/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=120,
    params:
        code=fingerprint("scripts/measure_sensitivity.py"),
        options=parameters.as_json(config["tendencies"]["measurement"]),
        sensitivity=parameters.as_json(config["tendencies"]["sensitivity"]),
        seed=config["seed"],
    shell:
        """
        python -m scripts.measure_sensitivity \
            --statistics {input.statistics:q} \
            --documents {input.documents:q} \
            --split test \
            --options {params.options:q} \
            --sensitivity-options {params.sensitivity:q} \
            --seed {params.seed} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule measure_resample:
    """Fit the laws and means of a random subset of the training split, without any test."""
    input:
        reference="<results>/references/{corpus}/statistics.parquet",
        samples="<results>/references/{corpus}/resamples/{resample}/statistics.parquet",
    output:
        whole("<results>/references/{corpus}/resamples/{resample}/measures.parquet"),
    log:
        "<logs>/measure_resample/{corpus}/{resample}.log",
    benchmark:
        "<benchmarks>/measure_resample/{corpus}/{resample}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=30,
    params:
        code=fingerprint("scripts/measure_tendencies.py"),
        options=RUN.samples.fit_options(),
    shell:
        """
        python -m scripts.measure_tendencies \
            --reference-statistics {input.reference:q} \
            --sample-statistics {input.samples:q} \
            --source resample/{wildcards.resample} \
            --options {params.options:q} \
            --measures {output:q} \
            2>&1 | tee -a {log:q}
        """
