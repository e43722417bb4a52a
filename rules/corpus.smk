# Text becomes documents and vocabularies.
#
# requires  the files of config["corpora"] (a dump, text, JSONL, Parquet, a treebank, coreference,
#           linked text; local or by URL)
# makes     <results>/corpora/{corpus}/{documents,mentions,knowledge_graph,aliases,trees,raw}.parquet
#           <results>/corpora/{corpus}-sentences/documents.parquet     where models write sentences
#           <results>/corpora/{corpus}/extraction.json       counts and what was skipped
#           <results>/vocabularies/{corpus}/{vocabulary}.json
#           <results>/vocabularies/{corpus}/{vocabulary}.spelling_model.json     of closed vocabularies
# steps     download -> extract_corpus -> cut_sentences, build_vocabulary -> build_spelling_model


rule download:
    """Fetch a file by its URL and check its SHA-256."""
    input:
        # A dry run plans without asking the network.
        lambda w: [] if workflow.dryrun else storage.http(RUN.corpora.url(w.sha256)),
    output:
        whole("<results>/downloads/{sha256}/{name}"),
    log:
        "<logs>/download/{sha256}/{name}.log",
    benchmark:
        "<benchmarks>/download/{sha256}/{name}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(1000),
        runtime=doubling(120),
    params:
        code=fingerprint("scripts/verify_download.py"),
        member=of(RUN.corpora.members, "sha256"),
    shell:
        """
        python -m scripts.verify_download \
            --input {input:q} \
            --sha256 {wildcards.sha256:q} \
            --member {params.member:q} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule extract_corpus:
    """Read, clean and split a corpus and its annotation; first, so that a bad one is known soon."""
    input:
        files=present(RUN.corpora.source_files, "corpus"),
    output:
        documents=whole("<results>/corpora/{corpus}/documents.parquet"),
        mentions="<results>/corpora/{corpus}/mentions.parquet",
        knowledge_graph="<results>/corpora/{corpus}/knowledge_graph.parquet",
        aliases="<results>/corpora/{corpus}/aliases.parquet",
        trees="<results>/corpora/{corpus}/trees.parquet",
        raw="<results>/corpora/{corpus}/raw.parquet",
        report="<results>/corpora/{corpus}/extraction.json",
    log:
        "<logs>/extract_corpus/{corpus}.log",
    benchmark:
        "<benchmarks>/extract_corpus/{corpus}.jsonl"
    wildcard_constraints:
        corpus="|".join(config["corpora"]),
    priority: 1
    conda:
        "../envs/cpu.yaml"
    threads: 2
    resources:
        mem_mb=memory("extract_corpus"),
        runtime=minutes("extract_corpus"),
    params:
        code=code_of("extract_corpus", of(RUN.corpora.code, "corpus")),
        config=of(RUN.corpora.options, "corpus"),
        seed=config["seed"],
    shell:
        """
        python -m scripts.extract_corpus \
            --config {params.config:q} \
            --seed {params.seed} --workers {threads} \
            --documents {output.documents:q} \
            --mentions {output.mentions:q} \
            --knowledge-graph {output.knowledge_graph:q} \
            --aliases {output.aliases:q} \
            --trees {output.trees:q} \
            --raw {output.raw:q} \
            --report {output.report:q} \
            2>&1 | tee -a {log:q}
        """


rule cut_sentences:
    """Make documents of the sentences of a corpus, to compare what models of sentences write."""
    input:
        documents="<results>/corpora/{base}/documents.parquet",
        trees="<results>/corpora/{base}/trees.parquet",
    output:
        whole(f"<results>/corpora/{{base}}{SENTENCES}/documents.parquet"),
    log:
        "<logs>/cut_sentences/{base}.log",
    benchmark:
        "<benchmarks>/cut_sentences/{base}.jsonl"
    wildcard_constraints:
        base="|".join(config["corpora"]),
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(60),
    params:
        code=fingerprint("scripts/cut_sentences.py"),
        unit=of(RUN.corpora.split_unit, "base"),
    shell:
        """
        python -m scripts.cut_sentences \
            --documents {input.documents:q} \
            --trees {input.trees:q} \
            --split-unit {params.unit} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule build_vocabulary:
    """Build a closed or BPE vocabulary from the training split."""
    input:
        documents="<results>/corpora/{corpus}/documents.parquet",
    output:
        whole("<results>/vocabularies/{corpus}/{vocabulary}.json"),
    log:
        "<logs>/build_vocabulary/{corpus}/{vocabulary}.log",
    benchmark:
        "<benchmarks>/build_vocabulary/{corpus}/{vocabulary}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(60),
    params:
        code=fingerprint("scripts/build_vocabulary.py"),
        config=option_of("vocabularies", "vocabulary"),
    shell:
        """
        python -m scripts.build_vocabulary \
            --documents {input.documents:q} \
            --config {params.config:q} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """


rule build_spelling_model:
    """Teach the characters of rare types, so that words outside a closed vocabulary can be spelled."""
    input:
        documents="<results>/corpora/{corpus}/documents.parquet",
        vocabulary="<results>/vocabularies/{corpus}/{vocabulary}.json",
    output:
        whole("<results>/vocabularies/{corpus}/{vocabulary}.spelling_model.json"),
    log:
        "<logs>/build_spelling_model/{corpus}/{vocabulary}.log",
    benchmark:
        "<benchmarks>/build_spelling_model/{corpus}/{vocabulary}.jsonl"
    conda:
        "../envs/cpu.yaml"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(60),
    params:
        code=fingerprint("scripts/build_spelling_model.py"),
    shell:
        """
        python -m scripts.build_spelling_model \
            --documents {input.documents:q} \
            --vocabulary {input.vocabulary:q} \
            --output {output:q} \
            2>&1 | tee -a {log:q}
        """
