# The measures of all papers, side by side: how they go together, and what perplexity misses.
#
# requires  perplexities of documents (train.smk), tendencies (tendencies.smk), scores of texts and distortions
#           (contrastive.smk), scores of predictions (semantics.smk)
# makes     <results>/relations/{corpus}/{measures,correlations,orders}.parquet
# steps     measure_perplexity, measure_tendencies, score_contrast, score_semantics -> relate_measures
#           -> tables and figures (report.smk)


rule relate_measures:
    """Relate the measures of a corpus: one table, rank correlations, orders of models."""
    input:
        unpack(of(RUN.relations.inputs, "corpus")),
    output:
        measures=whole("<results>/relations/{corpus}/measures.parquet"),
        correlations=whole("<results>/relations/{corpus}/correlations.parquet"),
        orders=whole("<results>/relations/{corpus}/orders.parquet"),
    log:
        "<logs>/relate_measures/{corpus}.log",
    benchmark:
        "<benchmarks>/relate_measures/{corpus}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(3000),
        runtime=doubling(60),
    params:
        **all_in_ranges(["contrasts", "semantics"]),
        code=fingerprint("scripts/relate_measures.py", *RUN.semantics.measure_code()),
        split=RUN.relations.split,
        level=RUN.relations.level,
        families=of(RUN.relations.families, "corpus"),
        confidence=RUN.relations.confidence,
        seed=config["seed"],
    shell:
        """
        python -m scripts.relate_measures \
            --perplexities {input.perplexities:q} \
            --tendencies {input.tendencies:q} \
            --contrasts {params.contrasts:q} \
            --semantics {params.semantics:q} \
            --split {params.split} --confidence {params.confidence} \
            --level {params.level} --families {params.families:q} \
            --seed {params.seed} \
            --measures {output.measures:q} \
            --correlations {output.correlations:q} \
            --orders {output.orders:q} \
            2>&1 | tee -a {log:q}
        """
