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
        documents=documents_of_model,
        model="<results>/models/{model}/model.json",
    output:
        whole("<results>/predictions/{model}/{block}.parquet"),
    log:
        "<logs>/predict_words/{model}/{block}.log",
    benchmark:
        "<benchmarks>/predict_words/{model}/{block}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=growing(3000),
        runtime=90,
        gpu=gpus,
    params:
        code=family_fingerprint("scripts/predict_words.py"),
        folder=subpath(input.model, parent=True),
        text=lambda wildcards: RUN.semantics.text(wildcards.model),
        sentences=lambda wildcards: RUN.semantics.sentence_range(wildcards.block),
        limit=lambda wildcards: RUN.semantics.limit(wildcards.block),
        options=RUN.semantics.prediction_options(),
        seed=config["seed"],
    shell:
        """
        python -m scripts.predict_words {params.text} \
            --model {params.folder:q} \
            --documents {input.documents:q} \
            --sentences {params.sentences} \
            --limit {params.limit} \
            --options {params.options:q} \
            --seed {params.seed} \
            --threads {threads} \
            --device auto \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """
