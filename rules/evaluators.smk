# What gives two texts a similarity is trained, where it does not come trained.
#
# requires  documents and vocabularies (corpus.smk), files of word vectors and of external pairs
# makes     <results>/evaluators/{evaluator}/evaluator.json, and beside it model.safetensors, training.parquet and
#           vocabulary.json (InferSent, SkipThought), or vectors.npy and words.txt (word2vec)
# steps     extract_corpus -> train_evaluator -> score_semantics, probe_evaluator (semantics.smk)
#
# Checkpoints lie in <results>/checkpoints/evaluators/{evaluator}, which no rule declares, so that a killed job goes
# on where it was. The description is written last: where it is, the other files are whole.


rule train_evaluator:
    """Train an evaluator of texts, or go on with a training that was interrupted."""
    input:
        documents=of(JUDGES.training_documents, "evaluator"),
        vocabulary=of(JUDGES.training_vocabulary, "evaluator"),
        others=present(JUDGES.training_files, "evaluator"),
    output:
        whole("<results>/evaluators/{evaluator}/evaluator.json"),
    log:
        "<logs>/train_evaluator/{evaluator}.log",
    benchmark:
        "<benchmarks>/train_evaluator/{evaluator}.jsonl"
    conda:
        environment(judge_gpus)
    resources:
        mem_mb=doubling(3000),
        runtime=doubling(720),
        gpu=judge_gpus,
    params:
        code=code_of("train_evaluator", of(JUDGES.training_code, "evaluator")),
        options=of(JUDGES.training_options, "evaluator"),
        preprocessing=of(JUDGES.preprocessing, "evaluator"),
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
            --seed {params.seed} --threads {threads} --device auto \
            --output {params.folder:q} \
            --checkpoints {params.checkpoints:q} \
            2>&1 | tee -a {log:q}
        """
