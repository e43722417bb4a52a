# Measures become tables, figures and the first page of the report.
#
# requires  measures, curves, sample sizes, sensitivity (tendencies.smk), perplexities and training curves (train.smk)
# makes     <results>/tables/{corpus}/table_{1..6}.{csv,tex,html}
#           <results>/figures/{corpus}/{figure}.{svg,pdf}
#           <results>/overview/overview.rst
# steps     tabulate, plot -> write_overview; the report itself: snakemake --report


rule tabulate:
    """Lay out a table, with published values beside where the tendencies paper has them."""
    input:
        measures=lambda wildcards: RUN.report.table_inputs(**wildcards, name="measures"),
        resamples=lambda wildcards: RUN.report.table_inputs(
            **wildcards, name="resamples"
        ),
        models=lambda wildcards: RUN.report.table_inputs(**wildcards, name="models"),
        perplexities=lambda wildcards: RUN.report.table_inputs(
            **wildcards, name="perplexities"
        ),
        sensitivity=lambda wildcards: RUN.report.table_inputs(
            **wildcards, name="sensitivity"
        ),
    output:
        csv="<results>/tables/{corpus}/{table}.csv",
        latex="<results>/tables/{corpus}/{table}.tex",
        html=report(
            "<results>/tables/{corpus}/{table}.html",
            caption="report/table.rst",
            category="Tables",
            subcategory="{corpus}",
            labels={"table": "{table}"},
        ),
    log:
        "<logs>/tabulate/{corpus}/{table}.log",
    benchmark:
        "<benchmarks>/tabulate/{corpus}/{table}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=10,
    params:
        code=lambda wildcards: fingerprint(
            "scripts/tabulate.py", RUN.report.table_code(wildcards.table)
        ),
        labels=RUN.report.labels(),
    shell:
        """
        python -m scripts.tabulate \
            --table {wildcards.table} \
            --measures {input.measures:q} \
            --resamples {input.resamples:q} \
            --models {input.models:q} \
            --perplexities {input.perplexities:q} \
            --sensitivity {input.sensitivity:q} \
            --labels {params.labels:q} \
            --csv {output.csv:q} \
            --latex {output.latex:q} \
            --html {output.html:q} \
            2>&1 | tee -a {log:q}
        """


rule plot:
    """Draw a figure."""
    input:
        lambda wildcards: RUN.report.figure_inputs(wildcards.corpus, wildcards.figure),
    output:
        svg=report(
            "<results>/figures/{corpus}/{figure}.svg",
            caption="report/figure.rst",
            category="Figures",
            subcategory="{corpus}",
            labels={"figure": "{figure}"},
        ),
        pdf="<results>/figures/{corpus}/{figure}.pdf",
    log:
        "<logs>/plot/{corpus}/{figure}.log",
    benchmark:
        "<benchmarks>/plot/{corpus}/{figure}.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=10,
    params:
        code=lambda wildcards: fingerprint(
            "scripts/plot_tendencies.py", RUN.report.figure_code(wildcards.figure)
        ),
        flag=lambda wildcards: RUN.report.figure_flag(wildcards.figure),
        labels=RUN.report.labels(),
    shell:
        """
        python -m scripts.plot_tendencies \
            --figure {wildcards.figure} \
            {params.flag} {input:q} \
            --labels {params.labels:q} \
            --output {output.svg:q} {output.pdf:q} \
            2>&1 | tee -a {log:q}
        """


rule write_overview:
    """Write the first page of the report."""
    input:
        extractions=[
            f"<results>/corpora/{corpus}/extraction.json"
            for corpus in config["corpora"]
        ],
        perplexities=PERPLEXITIES,
        measures=MEASURES,
        estimates=PLAN.estimate_files("estimates"),
        figures=[
            f"<results>/figures/{corpus}/main.svg"
            for corpus in RUN.samples.compared_corpora()
        ],
    output:
        ensure("<results>/overview/overview.rst", non_empty=True),
    log:
        "<logs>/write_overview.log",
    benchmark:
        "<benchmarks>/write_overview.jsonl"
    conda:
        "../envs/cpu.yaml"
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=10,
    params:
        code=fingerprint("scripts/write_overview.py"),
    shell:
        """
        python -m scripts.write_overview \
            --extractions {input.extractions:q} \
            --perplexities {input.perplexities:q} \
            --measures {input.measures:q} \
            --estimates {input.estimates:q} \
            --figures {input.figures:q} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """
