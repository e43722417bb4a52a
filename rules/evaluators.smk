# What gives two texts a similarity is trained, where it does not come trained.
#
# requires  documents and vocabularies (corpus.smk), files of word vectors and of pairs that are brought
# makes     <results>/evaluators/{evaluator}/evaluator.json, and beside it model.safetensors, training.parquet and
#           vocabulary.json (InferSent, SkipThought), or vectors.npy and words.txt (word2vec)
# steps     extract_corpus -> train_evaluator -> score_semantics, probe_evaluator (semantics.smk)
#
# Checkpoints lie in <results>/checkpoints/evaluators/{evaluator}, which no rule declares, so that a killed job goes
# on where it was. The description is written last: where it is, the other files are whole.


rule train_evaluator:
    """Train an evaluator of texts, or go on with a training that was interrupted."""
    input:
        documents=lambda wildcards: JUDGES.training_documents(wildcards.evaluator),
        vocabulary=lambda wildcards: JUDGES.training_vocabulary(wildcards.evaluator),
        others=lambda wildcards: JUDGES.training_files(
            wildcards.evaluator, planning=workflow.dryrun
        ),
    output:
        whole("<results>/evaluators/{evaluator}/evaluator.json"),
    log:
        "<logs>/train_evaluator/{evaluator}.log",
    benchmark:
        "<benchmarks>/train_evaluator/{evaluator}.jsonl"
    conda:
        environment(judge_gpus)
    resources:
        mem_mb=growing(3000),
        runtime=lasting(720),
        gpu=judge_gpus,
    params:
        code=lambda wildcards: fingerprint(
            "scripts/train_evaluator.py",
            *JUDGES.training_code(wildcards.evaluator),
        ),
        options=lambda wildcards: JUDGES.training_options(wildcards.evaluator),
        preprocessing=lambda wildcards: JUDGES.preprocessing(wildcards.evaluator),
        seed=config["seed"],
        folder=subpath(output[0], parent=True),
        checkpoints=f"{RUN.results}/checkpoints/evaluators/{{evaluator}}",
    shell:
        """
        python -m scripts.train_evaluator \
            --options {params.options:q} \
            --documents {input.documents:q} \
            --vocabulary {input.vocabulary:q} \
            --preprocessing {params.preprocessing:q} \
            --seed {params.seed} \
            --threads {threads} \
            --device auto \
            --output {params.folder:q} \
            --checkpoints {params.checkpoints:q} \
            2>&1 | tee -a {log:q}
        """
