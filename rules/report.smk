# What was measured and estimated becomes tables, figures and the first page of the report.
#
# requires  measures (also in raw text), curves, sample sizes, sensitivity (tendencies.smk), samples (generate.smk),
#           documents (corpus.smk), perplexities and training curves (train.smk), estimates and latents (importance.smk, thoughts.smk),
#           contrasts, their differences and partition functions (contrastive.smk), measures of predictions and
#           what compares them (semantics.smk), relations of all measures (relations.smk)
# makes     <results>/tables/{group}/{exhibit}.{csv,tex,html}
#           <results>/figures/{group}/{exhibit}.{svg,pdf}
#           <results>/overview/overview.rst, <benchmarks>/resources.{csv,html}
#           a group is a paper and what its tables and figures are of: tendencies/{corpus}, contrastive/{corpus}, semantics/{corpus},
#           relations/{corpus}, thoughts/{prompts}, importance
# steps     tabulate, plot -> write_overview; the report itself: snakemake --report


rule tabulate:
    """Lay out a table, with published values beside where its paper has them."""
    input:
        unpack(lambda wildcards: RUN.report.inputs(TABLES, **wildcards)),
    output:
        csv="<results>/tables/{group}/{exhibit}.csv",
        latex="<results>/tables/{group}/{exhibit}.tex",
        html=report(
            "<results>/tables/{group}/{exhibit}.html",
            caption="report/caption.rst",
            category="Tables",
            subcategory="{group}",
            labels={"table": "{exhibit}"},
        ),
    log:
        "<logs>/tabulate/{group}/{exhibit}.log",
    benchmark:
        "<benchmarks>/tabulate/{group}/{exhibit}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(1000),
        runtime=doubling(10),
    params:
        inputs=files_by_kind,
        code=lambda wildcards: RUN.report.code("tabulate", TABLES, **wildcards),
        table=lambda wildcards: RUN.report.name(**wildcards),
        caption=lambda wildcards: RUN.report.caption(TABLES, **wildcards),
        labels=lambda wildcards: RUN.report.labels(wildcards.group),
    shell:
        """
        python -m scripts.tabulate \
            --table {params.table} \
            --inputs {params.inputs:q} \
            --labels {params.labels:q} \
            --csv {output.csv:q} \
            --latex {output.latex:q} \
            --html {output.html:q} \
            2>&1 | tee -a {log:q}
        """


rule plot:
    """Draw a figure."""
    input:
        unpack(lambda wildcards: RUN.report.inputs(FIGURES, **wildcards)),
    output:
        svg=report(
            "<results>/figures/{group}/{exhibit}.svg",
            caption="report/caption.rst",
            category="Figures",
            subcategory="{group}",
            labels={"figure": "{exhibit}"},
        ),
        pdf="<results>/figures/{group}/{exhibit}.pdf",
    log:
        "<logs>/plot/{group}/{exhibit}.log",
    benchmark:
        "<benchmarks>/plot/{group}/{exhibit}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(1000),
        runtime=doubling(10),
    params:
        inputs=files_by_kind,
        code=lambda wildcards: RUN.report.code("plot", FIGURES, **wildcards),
        figure=lambda wildcards: RUN.report.name(**wildcards),
        caption=lambda wildcards: RUN.report.caption(FIGURES, **wildcards),
        labels=lambda wildcards: RUN.report.labels(wildcards.group),
    shell:
        """
        python -m scripts.plot \
            --figure {params.figure} \
            --inputs {params.inputs:q} \
            --labels {params.labels:q} \
            --output {output.svg:q} {output.pdf:q} \
            2>&1 | tee -a {log:q}
        """


rule write_overview:
    """Write the first page of the report, and what the jobs of the run asked for and used."""
    input:
        **FINDINGS,
        extractions=EXTRACTIONS,
        perplexities=PERPLEXITIES,
        differences=RUN.report.differences(),
        measures=MEASURES,
        sensitivity=RUN.report.sensitivities(),
        estimates=PLAN.estimate_files("estimates"),
        figures=MAIN_FIGURES,
    output:
        text=ensure("<results>/overview/overview.rst", non_empty=True),
        csv="<benchmarks>/resources.csv",
        html=RESOURCES_PAGE,
    log:
        "<logs>/write_overview.log",
    benchmark:
        "<benchmarks>/write_overview.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(1000),
        runtime=doubling(10),
    params:
        code=RUN.report.overview_code("scripts/write_overview.py"),
        compared=RUN.report.compared(),
        benchmarks=subpath(output.csv, parent=True),
    shell:
        """
        python -m scripts.write_overview \
            --extractions {input.extractions:q} \
            --perplexities {input.perplexities:q} \
            --differences {input.differences:q} \
            --measures {input.measures:q} \
            --sensitivity {input.sensitivity:q} \
            --compared {params.compared:q} \
            --estimates {input.estimates:q} \
            --figures {input.figures:q} \
            --contrastive {input.contrastive:q} \
            --semantics {input.semantics:q} \
            --relations {input.relations:q} \
            --benchmarks {params.benchmarks:q} --resources {output.csv:q} {output.html:q} \
            --output {output.text:q} \
            2>&1 | tee -a {log:q}
        """
