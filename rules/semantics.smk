# Sentences are predicted word by word; predictions are compared with what is there.
#
# requires  documents (corpus.smk), trained models (train.smk), trained evaluators (evaluators.smk)
# makes     <results>/predictions/{model}/{block}.parquet
#           <results>/semantics/{corpus}/scores/{model}/{evaluator}/{block}.parquet
#           <results>/semantics/{corpus}/{model}.parquet
#           <results>/semantics/{corpus}/{differences,correlations}.parquet
#           <results>/semantics/{corpus}/probes/{evaluator}.parquet
# steps     train -> predict_words -> score_semantics -> measure_semantics, compare_semantics; probe_evaluator
#           -> tables and figures (report.smk)
#
# A shard is a block of sentences of every split: no job but the last knows how many there are in all.


rule predict_words:
    """Predict a block of sentences word by word under one model."""
    input:
        documents=of(RUN.models.documents, "model"),
        model="<results>/models/{model}/model.json",
    output:
        whole("<results>/predictions/{model}/{block}.parquet"),
    log:
        "<logs>/predict_words/{model}/{block}.log",
    benchmark:
        "<benchmarks>/predict_words/{model}/{block}.jsonl"
    conda:
        environment(gpus)
    resources:
        mem_mb=memory("predict_words"),
        runtime=minutes("predict_words"),
        gpu=gpus,
    params:
        code=code_of("predict_words", of(RUN.models.code, "model")),
        folder=subpath(input.model, parent=True),
        splits=config["semantics"]["splits"],
        split_unit=of_corpus(RUN.corpora.split_unit),
        whole=of_corpus(RUN.semantics.whole_flag),
        sentences=of(RUN.semantics.sentence_range, "block"),
        limit=of(RUN.semantics.limit, "block"),
        options=RUN.semantics.prediction_options(),
        seed=config["seed"],
    shell:
        """
        python -m scripts.predict_words {params.whole} \
            --model {params.folder:q} \
            --documents {input.documents:q} \
            --splits {params.splits} --split-unit {params.split_unit} \
            --sentences {params.sentences} --limit {params.limit} \
            --options {params.options:q} \
            --seed {params.seed} --threads {threads} --device auto \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule score_semantics:
    """Score a block of predictions by one evaluator, against their targets and unrelated sentences."""
    input:
        predictions="<results>/predictions/{model}/{block}.parquet",
        evaluator=present(JUDGES.files, "evaluator"),
    output:
        whole("<results>/semantics/{corpus}/scores/{model}/{evaluator}/{block}.parquet"),
    log:
        "<logs>/score_semantics/{corpus}/{model}/{evaluator}/{block}.log",
    benchmark:
        "<benchmarks>/score_semantics/{corpus}/{model}/{evaluator}/{block}.jsonl"
    conda:
        environment(judge_gpus)
    resources:
        mem_mb=memory("score_semantics"),
        runtime=minutes("score_semantics"),
        gpu=judge_gpus,
    params:
        code=code_of("score_semantics", of(JUDGES.code, "evaluator")),
        options=of(JUDGES.options, "evaluator"),
        measures=as_json(config["semantics"]["measures"]),
    shell:
        """
        python -m scripts.score_semantics \
            --predictions {input.predictions:q} --model {wildcards.model} \
            --evaluator {wildcards.evaluator} --options {params.options:q} \
            --measures {params.measures:q} \
            --threads {threads} --device auto --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule measure_semantics:
    """Reduce the scores of a model to its measures, with their baselines."""
    input:
        scores=of(RUN.semantics.score_files, "model"),
        predictions=of(RUN.semantics.prediction_files, "model"),
    output:
        whole("<results>/semantics/{corpus}/{model}.parquet"),
    log:
        "<logs>/measure_semantics/{corpus}/{model}.log",
    benchmark:
        "<benchmarks>/measure_semantics/{corpus}/{model}.jsonl"
    wildcard_constraints:
        model="|".join(RUN.semantics.models()) or NAME,  # not that of differences
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(60),
    params:
        code=fingerprint("scripts/measure_semantics.py"),
        scores=in_ranges("scores"),
        predictions=in_ranges("predictions"),
        measures=as_json(config["semantics"]["measures"]),
        seed=config["seed"],
    shell:
        """
        python -m scripts.measure_semantics {params.scores:q} \
            --predictions {params.predictions:q} \
            --model {wildcards.model} \
            --measures {params.measures:q} --seed {params.seed} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule compare_semantics:
    """Compare the models of a corpus on the same sentences, and correlate the measures."""
    input:
        of(RUN.semantics.all_score_files, "corpus"),
    output:
        differences=whole("<results>/semantics/{corpus}/differences.parquet"),
        correlations=whole("<results>/semantics/{corpus}/correlations.parquet"),
    log:
        "<logs>/compare_semantics/{corpus}.log",
    benchmark:
        "<benchmarks>/compare_semantics/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(3000),
        runtime=doubling(60),
    params:
        code=fingerprint("scripts/compare_semantics.py", *RUN.semantics.measure_code()),
        scores=in_ranges(),
    shell:
        """
        python -m scripts.compare_semantics {params.scores:q} \
            --differences {output.differences:q} \
            --correlations {output.correlations:q} \
            2>&1 | tee -a {log:q}
        """


rule probe_evaluator:
    """Say what an evaluator notices in sentences of a corpus, and how it agrees with people."""
    input:
        documents="<results>/corpora/{corpus}/documents.parquet",
        evaluator=present(JUDGES.files, "evaluator"),
        human=present(RUN.semantics.human_files),
    output:
        probes=whole("<results>/semantics/{corpus}/probes/{evaluator}.parquet"),
        human=whole("<results>/semantics/{corpus}/human/{evaluator}.parquet"),
        pairs=whole("<results>/semantics/{corpus}/human_scores/{evaluator}.parquet"),
    log:
        "<logs>/probe_evaluator/{corpus}/{evaluator}.log",
    benchmark:
        "<benchmarks>/probe_evaluator/{corpus}/{evaluator}.jsonl"
    conda:
        environment(judge_gpus)
    resources:
        mem_mb=doubling(3000),
        runtime=doubling(60),
        gpu=judge_gpus,
    params:
        code=code_of("probe_evaluator", of(JUDGES.code, "evaluator")),
        split=config["semantics"]["splits"][-1],
        split_unit=of_corpus(RUN.corpora.split_unit),
        whole=of_corpus(RUN.semantics.whole_flag),
        sentences=min(config["semantics"]["sentences"], PROBED),
        options=of(JUDGES.options, "evaluator"),
        measures=as_json(config["semantics"]["measures"]),
        human=RUN.semantics.human_scores(),
        seed=config["seed"],
    shell:
        """
        python -m scripts.probe_evaluator {params.whole} \
            --documents {input.documents:q} \
            --split {params.split} --split-unit {params.split_unit} \
            --sentences {params.sentences} \
            --evaluator {wildcards.evaluator} --options {params.options:q} \
            --measures {params.measures:q} --human {params.human:q} \
            --seed {params.seed} --threads {threads} --device auto \
            --output {output.probes:q} \
            --correlations {output.human:q} --pair-scores {output.pairs:q} \
            2>&1 | tee -a {log:q}
        """
