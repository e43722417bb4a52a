# Reasoning models think before they answer; the perplexity of answers is summed over thoughts.
#
# requires  models (train.smk), files with prompts and answers
# makes     <results>/thoughts/{prompts}/{model}/{way}/draws/{instances}.parquet
#           <results>/thoughts/{prompts}/{model}/{way}/{estimates,curves,diagnostics,sums}.parquet
# steps     train -> draw_thoughts -> reduce_thoughts -> tables and figures (report.smk)
#
# A way is what thoughts are drawn from: own, answer or mixture. A shard is a block of prompts with
# all of their thoughts.


rule draw_thoughts:
    """Draw thoughts of a model for one block of prompts, and score their answers."""
    input:
        model="<results>/models/{model}/model.json",
        prompts=of(RUN.thoughts.file, "prompts"),
        templates=of(RUN.models.template_files, "model"),
    output:
        whole("<results>/thoughts/{prompts}/{model}/{way}/draws/{instances}.parquet"),
    log:
        "<logs>/draw_thoughts/{prompts}/{model}/{way}/{instances}.log",
    benchmark:
        "<benchmarks>/draw_thoughts/{prompts}/{model}/{way}/{instances}.jsonl"
    conda:
        environment(gpus)
    resources:
        mem_mb=memory("draw_thoughts"),
        runtime=minutes("draw_thoughts"),
        gpu=gpus,
    params:
        code=code_of("draw_thoughts", of(RUN.models.code, "model")),
        folder=subpath(input.model, parent=True),
        fields=of(RUN.thoughts.fields, "prompts"),
        options=of(RUN.thoughts.options, "prompts", "way"),
        instances=of(RUN.thoughts.instance_range, "prompts", "instances"),
        seed=config["seed"],
    shell:
        """
        python -m scripts.draw_thoughts \
            --model {params.folder:q} \
            --prompts {input.prompts:q} --fields {params.fields:q} \
            --options {params.options:q} \
            --instances {params.instances} \
            --seed {params.seed} --threads {threads} --device auto \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule reduce_thoughts:
    """Turn the thoughts of a model and a proposal into estimates, bounds, curves and diagnostics."""
    input:
        of(RUN.thoughts.shards, "prompts", "model", "way"),
    output:
        estimates=whole("<results>/thoughts/{prompts}/{model}/{way}/estimates.parquet"),
        curves=whole("<results>/thoughts/{prompts}/{model}/{way}/curves.parquet"),
        diagnostics=whole(
            "<results>/thoughts/{prompts}/{model}/{way}/diagnostics.parquet"
        ),
        sums=whole("<results>/thoughts/{prompts}/{model}/{way}/sums.parquet"),
    log:
        "<logs>/reduce_thoughts/{prompts}/{model}/{way}.log",
    benchmark:
        "<benchmarks>/reduce_thoughts/{prompts}/{model}/{way}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(3500),
        runtime=doubling(60),
    params:
        code=code_of("reduce_thoughts", lambda _: RUN.thoughts.reduction_code()),
        shards=in_ranges(),
        options=as_json(config["importance"]["reduction"]),
        seed=config["seed"],
    shell:
        """
        python -m scripts.reduce_thoughts \
            --thoughts {params.shards:q} \
            --names {wildcards.model} {wildcards.way} \
            --options {params.options:q} \
            --seed {params.seed} \
            --estimates {output.estimates:q} \
            --curves {output.curves:q} \
            --diagnostics {output.diagnostics:q} \
            --sums {output.sums:q} \
            2>&1 | tee -a {log:q}
        """
