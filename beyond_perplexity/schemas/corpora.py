"""What an extraction writes (documents, mentions, graph, aliases, trees, raw text), and samples."""

from __future__ import annotations

from beyond_perplexity.schemas import columns, flags, floats, int32s, int64s, strings

DOCUMENTS = columns("documents", int64s("doc_id"), strings("split title text"), int32s("n_tokens"))

MENTIONS = columns("mentions", int64s("doc_id"), int32s("start end"), strings("entity source"))

KNOWLEDGE_GRAPH = columns("knowledge_graph", strings("subject relation object"))

ALIASES = columns("aliases", strings("entity alias"))

# Constituency trees in Penn brackets, one a sentence, on one line; see corpus/penn.py.
TREES = columns("trees", int64s("doc_id"), int32s("sentence"), strings("tree"))

# A sentence of the trees is known by the number doc_id * 65536 + sentence.
SENTENCES_OF_A_DOCUMENT = 65_536

# The documents before cleaning: the same in number and order as in ``documents``.
RAW = columns("raw", int64s("doc_id"), strings("text"))

# Answers of people and of a model to the same prompts, and what groups prompts.
PROMPT_ANSWERS = columns("answers", strings("group prompt human model"))

# Documents that models write, and external ones.
TEXT_SAMPLES = columns(
    "samples",
    int64s("doc_id"),
    strings("text"),
    int32s("n_tokens"),
    floats("log_prob log_prob_decoding"),
    flags("finished"),
)
