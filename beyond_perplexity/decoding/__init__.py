"""Decoding: drawing documents from a language model.

`options` says what can be asked for, `kernels` draws one token, `engine` and `beam` turn draws into
documents for any model, `ngram` does the same faster for counted models, and `generation` chooses.
"""
