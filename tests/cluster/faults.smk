# Tiny jobs with the shell and the scripts of the workflow, each on a node of its own, for test_faults.py.
import sys

sys.path.insert(0, config["root"])

from beyond_perplexity.errors import SHELL_PREFIX

shell.prefix(SHELL_PREFIX)


rule all:
    default_target: True
    input:
        "preempted/model.json",
        "lost/model.json",
        "timed/model.json",
        "shard.parquet",
        "hungry",


rule train:
    output:
        "{run}/model.json",
    log:
        "{run}.log",
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * 2 ** (attempt - 1),
        runtime=lambda wildcards, attempt: (
            2 ** (attempt - 1) if wildcards.run == "timed" else 10
        ),
        slurm_extra=lambda wildcards: f"'--nodelist={config['nodes'][wildcards.run]}'",
    params:
        training=config["training"],
    shell:
        """
        python -m scripts.train \
            --documents data/documents.parquet \
            --vocabulary data/vocabulary.json \
            --config {params.training:q} \
            --device cpu \
            --output {wildcards.run} \
            --checkpoints {wildcards.run}.checkpoints \
            2>&1 | tee -a {log:q}
        """


rule generate:
    output:
        "shard.parquet",
    log:
        "shard.log",
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * 2 ** (attempt - 1),
        runtime=lambda wildcards, attempt: 2 ** (attempt - 1),
        slurm_extra=f"'--nodelist={config['nodes']['timed']}'",
    shell:
        """
        python -m scripts.generate \
            --model data/whole \
            --decoding '{{"kind": "ancestral"}}' \
            --name whole/ancestral \
            --seed 1 \
            --count {config[documents]} \
            --maximum-length 40 \
            --batch-size 16 \
            --device cpu \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule hungry:
    """Take 700 MB, of which the first attempt has fewer."""
    output:
        "hungry",
    log:
        "hungry.log",
    resources:
        mem_mb=lambda wildcards, attempt: 600 * 2 ** (attempt - 1),
        runtime=10,
        slurm_extra=f"'--nodelist={config['nodes']['timed']}'",
    shell:
        """
        python -c 'import time; held = b"x" * 700_000_000; time.sleep(5)' 2>&1 | tee -a {log:q}
        touch {output:q}
        """
