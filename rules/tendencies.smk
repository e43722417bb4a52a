# Documents become sufficient statistics, statistics become distances and tests.
#
# requires  documents (corpus.smk), samples (generate.smk)
# makes     <results>/shared_vocabulary/{corpus}/{vocabulary}.txt
#           <results>/statistics/{model}/{decoding}/{block,merged}.parquet
#           <results>/references/{corpus}/{vocabulary}/{statistics,curves}.parquet
#           <results>/references/{corpus}/resamples/{resample}/{statistics,measures}.parquet
#           <results>/references/{corpus}/sensitivity.parquet
#           <results>/tendencies/{model}/{decoding}/{measures,raw,sample_size,curves,words}.parquet
#           <results>/embeddings/{corpus}/{vectors,measures,sensitivity}.parquet, where documents are embedded
#           <results>/{references/{corpus}/{vocabulary},tendencies/{model}/{decoding}}/judged.parquet, where a model judges
# steps     choose_words -> count -> merge -> judge -> measure -> embed -> measure_embeddings


rule choose_words:
    """Choose the words that texts of a closed vocabulary are compared in, alike in training and test."""
    input:
        documents="<results>/corpora/{corpus}/documents.parquet",
        vocabulary=of(RUN.samples.vocabulary_file, "corpus", "vocabulary"),
    output:
        whole("<results>/shared_vocabulary/{corpus}/{vocabulary}.txt"),
    log:
        "<logs>/choose_words/{corpus}/{vocabulary}.log",
    benchmark:
        "<benchmarks>/choose_words/{corpus}/{vocabulary}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(60),
    params:
        code=fingerprint("scripts/choose_words.py"),
        group_column=of_corpus(RUN.samples.group_column),
        minimum_tokens=config["tendencies"]["minimum_tokens"],
    shell:
        """
        python -m scripts.choose_words \
            --documents {input.documents:q} \
            --vocabulary {input.vocabulary:q} \
            --minimum-tokens {params.minimum_tokens} \
            --group-column {params.group_column} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule count_samples:
    """Count the shards of a block of samples: unigrams, types, lengths, stop words, symbols."""
    input:
        text=of(RUN.samples.block_files, "model", "decoding", "block"),
        stop_words=RUN.corpora.stop_word_files(),
        vocabulary=of(RUN.samples.body_vocabulary, "model", "decoding"),
    output:
        whole("<results>/statistics/{model}/{decoding}/{block}.parquet"),
    log:
        "<logs>/count_samples/{model}/{decoding}/{block}.log",
    benchmark:
        "<benchmarks>/count_samples/{model}/{decoding}/{block}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=memory("count_samples"),
        runtime=minutes("count_samples"),
    params:
        **READING,
        code=RUN.samples.counting_code("scripts/count_statistics.py"),
        text=in_ranges("text"),
        kind="samples",
        split=[],
        resample=[],
        as_large_as=[],
        seed=[],
        first=[],
        stop_words=of_corpus(RUN.corpora.stop_words),
    shell:
        """
        python -m scripts.count_statistics {params.symbols} \
            --input {params.text:q} \
            --kind {params.kind} --split {params.split} --first {params.first} \
            --resample {params.resample} --size-of-split {params.as_large_as} \
            --minimum-tokens {params.minimum_tokens} --maximum-tokens {params.maximum_tokens} \
            --seed {params.seed} \
            --vocabulary {input.vocabulary:q} \
            --stop-words {params.stop_words:q} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


use rule count_samples as count_reference with:
    input:
        text="<results>/corpora/{corpus}/documents.parquet",
        stop_words=RUN.corpora.stop_word_files(),
        vocabulary=of(RUN.samples.vocabulary_files, "corpus", "vocabulary"),
    output:
        whole("<results>/references/{corpus}/{vocabulary}/statistics.parquet"),
    log:
        "<logs>/count_reference/{corpus}/{vocabulary}.log",
    benchmark:
        "<benchmarks>/count_reference/{corpus}/{vocabulary}.jsonl"
    conda:
        "../envs/cpu.yaml"
    params:
        **READING,
        code=RUN.samples.counting_code("scripts/count_statistics.py"),
        text=in_ranges("text"),
        kind="documents",
        split="test",
        resample=[],
        as_large_as=[],
        seed=[],
        first=config["generation"]["documents"],
        stop_words=of_corpus(RUN.corpora.stop_words),


use rule count_samples as count_resample with:
    input:
        text="<results>/corpora/{corpus}/documents.parquet",
        stop_words=RUN.corpora.stop_word_files(),
        vocabulary=[],
    output:
        whole("<results>/references/{corpus}/resamples/{resample}/statistics.parquet"),
    log:
        "<logs>/count_resample/{corpus}/{resample}.log",
    benchmark:
        "<benchmarks>/count_resample/{corpus}/{resample}.jsonl"
    conda:
        "../envs/cpu.yaml"
    params:
        **READING,
        code=RUN.samples.counting_code("scripts/count_statistics.py"),
        text=in_ranges("text"),
        kind="documents",
        split="train",
        resample=of(int, "resample"),
        as_large_as="test",
        seed=config["seed"],
        first=config["generation"]["documents"],
        stop_words=of_corpus(RUN.corpora.stop_words),


rule merge_statistics:
    """Add the blocks of a sample set up, where it is counted in several."""
    input:
        of(RUN.samples.counted_files, "model", "decoding"),
    output:
        whole("<results>/statistics/{model}/{decoding}/merged.parquet"),
    log:
        "<logs>/merge_statistics/{model}/{decoding}.log",
    benchmark:
        "<benchmarks>/merge_statistics/{model}/{decoding}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(30),
    params:
        code=fingerprint("scripts/merge_statistics.py"),
        files=in_ranges(),
    shell:
        """
        python -m scripts.merge_statistics \
            --inputs {params.files:q} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule measure_tendencies:
    """Fit, measure and test a sample set, and random subsets of it, against its test split."""
    input:
        unpack(of(RUN.samples.compared_files, "model", "decoding")),
        samples=of(RUN.samples.statistics_file, "model", "decoding"),
        stop_words=RUN.corpora.stop_word_files(),
        sample_documents=of(RUN.samples.shard_files, "model", "decoding"),
        judged=of(RUN.judge.measured, "model", "decoding"),
    output:
        measures=whole("<results>/tendencies/{model}/{decoding}/measures.parquet"),
        raw=whole("<results>/tendencies/{model}/{decoding}/raw.parquet"),
        sample_size=whole("<results>/tendencies/{model}/{decoding}/sample_size.parquet"),
        curves=whole("<results>/tendencies/{model}/{decoding}/curves.parquet"),
    log:
        "<logs>/measure_tendencies/{model}/{decoding}.log",
    benchmark:
        "<benchmarks>/measure_tendencies/{model}/{decoding}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=memory("measure_tendencies"),
        runtime=minutes("measure_tendencies"),
    params:
        **COMPARING,
        code=RUN.samples.counting_code("scripts/measure_tendencies.py"),
        documents=in_ranges("sample_documents"),
        training_split=of(RUN.samples.training_split, "model", "decoding"),
        sample_sets=of_corpus(RUN.samples.sample_sets),
        sizes=as_json(config["tendencies"]["sample_size"]),
    shell:
        """
        python -m scripts.measure_tendencies {params.symbols} \
            --reference-statistics {input.reference:q} --reference-documents {input.documents:q} \
            --raw-reference-statistics {input.raw_reference:q} \
            --sample-statistics {input.samples:q} --sample-documents {params.documents:q} \
            --vocabulary {input.vocabulary:q} --judged {input.judged:q} --stop-words {params.stop_words:q} \
            --reference-split test --pool-split train --training-split {params.training_split} \
            --first {params.first} --group-column {params.group_column} \
            --minimum-tokens {params.minimum_tokens} --maximum-tokens {params.maximum_tokens} \
            --options {params.options:q} --sample-size-options {params.sizes:q} \
            --source {wildcards.model}/{wildcards.decoding} --sample-sets {params.sample_sets} --seed {params.seed} \
            --measures {output.measures:q} --raw {output.raw:q} \
            --sample-size {output.sample_size:q} --curves {output.curves:q} \
            2>&1 | tee -a {log:q}
        """


rule judge_reference:
    """Let a model judge documents of the test split, and of the training split beside them."""
    input:
        documents="<results>/corpora/{corpus}/documents.parquet",
        vocabulary=of(RUN.samples.vocabulary_files, "corpus", "vocabulary"),
        model=RUN.judge.model_file,
        like=[],
    output:
        whole("<results>/references/{corpus}/{vocabulary}/judged.parquet"),
    log:
        "<logs>/judge_reference/{corpus}/{vocabulary}.log",
    benchmark:
        "<benchmarks>/judge_reference/{corpus}/{vocabulary}.jsonl"
    conda:
        environment(judging_gpus)
    resources:
        mem_mb=doubling(4000),
        runtime=doubling(120),
        gpu=judging_gpus,
    params:
        **JUDGING,
        folder=subpath(input.model, parent=True),
        split="test",
        training_split="train",
        first=config["generation"]["documents"],
        group_column=of_corpus(RUN.samples.group_column),
    shell:
        """
        python -m scripts.judge --model {params.folder:q} --documents {input.documents:q} \
            --split {params.split} --training-split {params.training_split} \
            --first {params.first} --group-column {params.group_column} --like {input.like:q} \
            --minimum-tokens {params.minimum_tokens} --maximum-tokens {params.maximum_tokens} \
            --vocabulary {input.vocabulary:q} --most {params.most} --seed {params.seed} \
            --memory-mb {resources.mem_mb} --threads {threads} --output {output:q} \
            2>&1 | tee -a {log:q}
        """


use rule judge_reference as judge_samples with:
    input:
        documents=of(RUN.judge.sample_files, "model", "decoding"),
        vocabulary=of(RUN.samples.body_vocabulary, "model", "decoding"),
        model=RUN.judge.model_file,
        like=of(RUN.judge.reference, "model", "decoding"),
    output:
        whole("<results>/tendencies/{model}/{decoding}/judged.parquet"),
    log:
        "<logs>/judge_samples/{model}/{decoding}.log",
    benchmark:
        "<benchmarks>/judge_samples/{model}/{decoding}.jsonl"
    params:
        **JUDGING,
        folder=subpath(input.model, parent=True),
        split=[],
        training_split=[],
        first=[],
        group_column=[],


rule measure_words:
    """Find the words and phrases that a sample set over- and under-uses, beside its test split."""
    input:
        unpack(of(RUN.samples.compared_files, "model", "decoding")),
        samples=of(RUN.samples.statistics_file, "model", "decoding"),
        stop_words=RUN.corpora.stop_word_files(),
        sample_documents=of(RUN.samples.shard_files, "model", "decoding"),
    output:
        whole("<results>/tendencies/{model}/{decoding}/words.parquet"),
    log:
        "<logs>/measure_words/{model}/{decoding}.log",
    benchmark:
        "<benchmarks>/measure_words/{model}/{decoding}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=memory("measure_words"),
        runtime=minutes("measure_words"),
    params:
        **COMPARING,
        code=RUN.samples.counting_code("scripts/measure_words.py"),
        documents=in_ranges("sample_documents"),
        sample_sets=of_corpus(RUN.samples.sample_sets),
    shell:
        """
        python -m scripts.measure_words {params.symbols} \
            --reference-statistics {input.reference:q} --reference-documents {input.documents:q} \
            --reference-split test --first {params.first} --group-column {params.group_column} \
            --sample-statistics {input.samples:q} --sample-documents {params.documents:q} \
            --vocabulary {input.vocabulary:q} --stop-words {params.stop_words:q} \
            --minimum-tokens {params.minimum_tokens} --maximum-tokens {params.maximum_tokens} \
            --options {params.options:q} --sample-sets {params.sample_sets} --seed {params.seed} \
            --source {wildcards.model}/{wildcards.decoding} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule describe_reference:
    """Draw the curves of the reference itself, read in a vocabulary or raw."""
    input:
        statistics="<results>/references/{corpus}/{vocabulary}/statistics.parquet",
        documents="<results>/corpora/{corpus}/documents.parquet",
        vocabulary=of(RUN.samples.vocabulary_files, "corpus", "vocabulary"),
    output:
        whole("<results>/references/{corpus}/{vocabulary}/curves.parquet"),
    log:
        "<logs>/describe_reference/{corpus}/{vocabulary}.log",
    benchmark:
        "<benchmarks>/describe_reference/{corpus}/{vocabulary}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(30),
    params:
        **READING,
        code=RUN.samples.counting_code("scripts/measure_tendencies.py"),
        source=of(reference_in, "vocabulary"),
        first=config["generation"]["documents"],
        options=as_json(config["tendencies"]["measurement"]),
    shell:
        """
        python -m scripts.measure_tendencies \
            --reference-statistics {input.statistics:q} --reference-documents {input.documents:q} \
            --reference-split test --training-split train --first {params.first} \
            --vocabulary {input.vocabulary:q} \
            --minimum-tokens {params.minimum_tokens} --maximum-tokens {params.maximum_tokens} \
            --source {params.source} \
            --options {params.options:q} \
            --curves {output:q} \
            2>&1 | tee -a {log:q}
        """


rule measure_sensitivity:
    """Find the minimum detectable effect of each tendency for 1k to 1M documents."""
    input:
        statistics="<results>/references/{corpus}/raw/statistics.parquet",
        documents="<results>/corpora/{corpus}/documents.parquet",
        stop_words=RUN.corpora.stop_word_files(),
        judged=of(RUN.judge.first_reference, "corpus"),
    output:
        whole("<results>/references/{corpus}/sensitivity.parquet"),
    log:
        "<logs>/measure_sensitivity/{corpus}.log",
    benchmark:
        "<benchmarks>/measure_sensitivity/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(4000),
        runtime=doubling(120),
    params:
        **COMPARING,
        code=RUN.samples.counting_code("scripts/measure_sensitivity.py"),
        sensitivity=as_json(config["tendencies"]["sensitivity"]),
    shell:
        """
        python -m scripts.measure_sensitivity {params.symbols} \
            --statistics {input.statistics:q} \
            --documents {input.documents:q} \
            --split test --training-split train \
            --first {params.first} --group-column {params.group_column} \
            --minimum-tokens {params.minimum_tokens} --maximum-tokens {params.maximum_tokens} \
            --stop-words {params.stop_words:q} --judged {input.judged:q} \
            --options {params.options:q} \
            --sensitivity-options {params.sensitivity:q} \
            --seed {params.seed} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule measure_resample:
    """Fit the laws and means of a random subset of the training split, without any test."""
    input:
        reference="<results>/references/{corpus}/raw/statistics.parquet",
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
        mem_mb=doubling(2000),
        runtime=doubling(30),
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


rule embed:
    """Make vectors of some documents of all sample sets of a corpus, and of its human text."""
    input:
        documents="<results>/corpora/{corpus}/documents.parquet",
        samples=of(RUN.embeddings.sample_files, "corpus"),
        vocabularies=of(RUN.embeddings.vocabulary_files, "corpus"),
        encoder=JUDGES.files(RUN.embeddings.encoder),
    output:
        whole("<results>/embeddings/{corpus}/vectors.parquet"),
    log:
        "<logs>/embed/{corpus}.log",
    benchmark:
        "<benchmarks>/embed/{corpus}.jsonl"
    conda:
        environment(encoder_gpus)
    resources:
        mem_mb=doubling(4000),
        runtime=doubling(120),
        gpu=encoder_gpus,
    params:
        **READING,
        code=fingerprint("scripts/embed.py", *JUDGES.code(RUN.embeddings.encoder)),
        samples=in_ranges("samples"),
        encoder=JUDGES.options(RUN.embeddings.encoder),
        readings=of(RUN.embeddings.readings, "corpus"),
        documents=RUN.embeddings.documents,
        group_column=of_corpus(RUN.samples.group_column),
        first=config["generation"]["documents"],
        seed=config["seed"],
    shell:
        """
        python -m scripts.embed \
            --reference-documents {input.documents:q} \
            --samples {params.samples:q} \
            --vocabularies {input.vocabularies:q} \
            --encoder {params.encoder:q} --readings {params.readings:q} \
            --documents {params.documents} \
            --first {params.first} --group-column {params.group_column} \
            --minimum-tokens {params.minimum_tokens} --maximum-tokens {params.maximum_tokens} \
            --seed {params.seed} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule measure_embeddings:
    """Compare all sample sets of a corpus by the vectors of their documents."""
    input:
        vectors="<results>/embeddings/{corpus}/vectors.parquet",
        measures=of(RUN.samples.measures, "corpus"),
        sensitivity="<results>/references/{corpus}/sensitivity.parquet",
    output:
        measures=whole("<results>/embeddings/{corpus}/measures.parquet"),
        sensitivity=whole("<results>/embeddings/{corpus}/sensitivity.parquet"),
    log:
        "<logs>/measure_embeddings/{corpus}.log",
    benchmark:
        "<benchmarks>/measure_embeddings/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(4000),
        runtime=doubling(60),
    params:
        code=fingerprint("scripts/measure_embeddings.py"),
        sample_sets=of_corpus(RUN.samples.sample_sets),
        options=as_json(config["tendencies"]["measurement"]),
        sensitivity=as_json(config["tendencies"]["sensitivity"]),
        seed=config["seed"],
    shell:
        """
        python -m scripts.measure_embeddings \
            --embeddings {input.vectors:q} \
            --measures {input.measures:q} \
            --sensitivity {input.sensitivity:q} \
            --sample-sets {params.sample_sets} --seed {params.seed} \
            --options {params.options:q} --sensitivity-options {params.sensitivity:q} \
            --output {output.measures:q} \
            --output-sensitivity {output.sensitivity:q} \
            2>&1 | tee -a {log:q}
        """
