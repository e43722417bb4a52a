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
        ensure(
            "<results>/statistics/{model}/{decoding}/{shard}.parquet", non_empty=True
        ),
    log:
        "<logs>/count_samples/{model}/{decoding}/{shard}.log",
    benchmark:
        "<benchmarks>/count_samples/{model}/{decoding}/{shard}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=30,
    params:
        code=fingerprint("scripts/count_statistics.py"),
        kind="samples",
        selection="",
        stop_words=RUN.corpora.stop_words(),
        symbols=RUN.samples.symbols_flag(),
    shell:
        """
        python -m scripts.count_statistics \
            --input {input.text:q} \
            --kind {params.kind} {params.selection} \
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
        ensure("<results>/references/{corpus}/statistics.parquet", non_empty=True),
    log:
        "<logs>/count_reference/{corpus}.log",
    benchmark:
        "<benchmarks>/count_reference/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
    params:
        code=fingerprint("scripts/count_statistics.py"),
        kind="documents",
        selection="--split test",
        stop_words=RUN.corpora.stop_words(),
        symbols=RUN.samples.symbols_flag(),


use rule count_samples as count_resample with:
    input:
        text="<results>/corpora/{corpus}/documents.parquet",
        stop_words=RUN.corpora.stop_word_files(),
    output:
        ensure(
            "<results>/references/{corpus}/resamples/{resample}/statistics.parquet",
            non_empty=True,
        ),
    log:
        "<logs>/count_resample/{corpus}/{resample}.log",
    benchmark:
        "<benchmarks>/count_resample/{corpus}/{resample}.jsonl"
    conda:
        "../envs/cpu.yaml"
    params:
        code=fingerprint("scripts/count_statistics.py"),
        kind="documents",
        selection=lambda wildcards: (
            f"--split train --size-of-split test --resample {int(wildcards.resample)}"
            f" --seed {config['seed']}"
        ),
        stop_words=RUN.corpora.stop_words(),
        symbols=RUN.samples.symbols_flag(),


rule merge_statistics:
    """Add the shards of a body of text up."""
    input:
        lambda wildcards: expand(
            "<results>/statistics/{model}/{decoding}/{shard}.parquet",
            shard=RUN.samples.shards(wildcards.model),
            **wildcards,
        ),
    output:
        ensure("<results>/statistics/{model}/{decoding}/merged.parquet", non_empty=True),
    log:
        "<logs>/merge_statistics/{model}/{decoding}.log",
    benchmark:
        "<benchmarks>/merge_statistics/{model}/{decoding}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
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
        reference=lambda wildcards: f"<results>/references/{RUN.samples.corpus_of(**wildcards)}/statistics.parquet",
        samples="<results>/statistics/{model}/{decoding}/merged.parquet",
        reference_documents=lambda wildcards: f"<results>/corpora/{RUN.samples.corpus_of(**wildcards)}/documents.parquet",
        sample_documents=lambda wildcards: expand(
            "<results>/samples/{model}/{decoding}/{shard}.parquet",
            shard=RUN.samples.shards(wildcards.model),
            **wildcards,
        ),
    output:
        measures=ensure(
            "<results>/tendencies/{model}/{decoding}/measures.parquet", non_empty=True
        ),
        sample_size=ensure(
            "<results>/tendencies/{model}/{decoding}/sample_size.parquet",
            non_empty=True,
        ),
        curves=ensure(
            "<results>/tendencies/{model}/{decoding}/curves.parquet", non_empty=True
        ),
    log:
        "<logs>/measure_tendencies/{model}/{decoding}.log",
    benchmark:
        "<benchmarks>/measure_tendencies/{model}/{decoding}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
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
        ensure("<results>/references/{corpus}/curves.parquet", non_empty=True),
    log:
        "<logs>/describe_reference/{corpus}.log",
    benchmark:
        "<benchmarks>/describe_reference/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
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
        ensure("<results>/references/{corpus}/sensitivity.parquet", non_empty=True),
    log:
        "<logs>/measure_sensitivity/{corpus}.log",
    benchmark:
        "<benchmarks>/measure_sensitivity/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
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
        ensure(
            "<results>/references/{corpus}/resamples/{resample}/measures.parquet",
            non_empty=True,
        ),
    log:
        "<logs>/measure_resample/{corpus}/{resample}.log",
    benchmark:
        "<benchmarks>/measure_resample/{corpus}/{resample}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
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
