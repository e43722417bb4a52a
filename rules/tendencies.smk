# Documents become sufficient statistics, statistics become distances and tests.
#
# requires  documents (corpus.smk), samples (generate.smk)
# makes     <results>/statistics/{model}/{decoding}/{shard,merged}.parquet
#           <results>/statistics/reference/{corpus}.parquet, <results>/statistics/resamples/{corpus}/{resample}.parquet
#           <results>/tendencies/{model}/{decoding}/{measures,curves}.parquet
#           <results>/tendencies/reference/{corpus}/curves.parquet
# steps     count -> merge -> measure


rule count_samples:
    """Count one shard of samples: unigrams, types, lengths, stop words, symbols."""
    input:
        "<results>/samples/{model}/{decoding}/{shard}.parquet",
    output:
        ensure(
            "<results>/statistics/{model}/{decoding}/{shard}.parquet", non_empty=True
        ),
    params:
        code=fingerprint("scripts/count_statistics.py"),
        kind="samples",
        selection="",
        stop_words=config["tendencies"]["stop_words"],
        symbols=RUN.symbols_flag(),
    log:
        "<logs>/count_samples/{model}/{decoding}/{shard}.log",
    benchmark:
        "<benchmarks>/count_samples/{model}/{decoding}/{shard}.jsonl"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=30,
    shell:
        """
        python -m scripts.count_statistics \
            --input {input:q} \
            --kind {params.kind} {params.selection} \
            --stop-words {params.stop_words:q} \
            {params.symbols} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


use rule count_samples as count_reference with:
    input:
        "<results>/corpora/{corpus}/documents.parquet",
    output:
        ensure("<results>/statistics/reference/{corpus}.parquet", non_empty=True),
    params:
        code=fingerprint("scripts/count_statistics.py"),
        kind="documents",
        selection="--split test",
        stop_words=config["tendencies"]["stop_words"],
        symbols=RUN.symbols_flag(),
    log:
        "<logs>/count_reference/{corpus}.log",
    benchmark:
        "<benchmarks>/count_reference/{corpus}.jsonl"


use rule count_samples as count_resample with:
    input:
        "<results>/corpora/{corpus}/documents.parquet",
    output:
        ensure(
            "<results>/statistics/resamples/{corpus}/{resample}.parquet",
            non_empty=True,
        ),
    params:
        code=fingerprint("scripts/count_statistics.py"),
        kind="documents",
        selection=lambda wildcards: (
            f"--split train --size-of-split test --resample {int(wildcards.resample)}"
            f" --seed {config['seed']}"
        ),
        stop_words=config["tendencies"]["stop_words"],
        symbols=RUN.symbols_flag(),
    log:
        "<logs>/count_resample/{corpus}/{resample}.log",
    benchmark:
        "<benchmarks>/count_resample/{corpus}/{resample}.jsonl"
