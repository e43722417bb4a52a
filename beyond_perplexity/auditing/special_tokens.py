"""Special tokens that a text says, and that are characters there."""

from __future__ import annotations

from collections import Counter

import numpy as np

from beyond_perplexity.auditing.evidence import Evidence
from beyond_perplexity.auditing.subject import Subject
from beyond_perplexity.perplexities.special_tokens import finder, said_words, special_ids
from beyond_perplexity.vocabulary import BOS, EOS


def check_special_tokens(subject: Subject) -> Evidence:
    """Count the special tokens whose strings, amid a text, become the ids of special tokens.

    What the tokenizer adds to any text is not counted here.
    """
    held = special_ids(subject.vocabulary)
    special = np.array(sorted({BOS, EOS, *held.values()}))
    plain, *others = subject.vocabulary.encode(["a b", *(f"a {said} b" for said in held)])
    added = int(np.isin(plain, special).sum())
    read = [
        said
        for said, ids in zip(held, others, strict=True)
        if int(np.isin(ids, special).sum()) > added
    ]
    find = finder(subject.vocabulary).findall
    said = said_words(Counter(token for text in subject.texts for token in find(text)))
    detail = f"read as tokens: {', '.join(read)[:80]}" if read else "all are read as characters"
    detail += f"; the texts say {said}" if said else "; the texts say none"
    return Evidence(float(len(read)), len(held), detail)
