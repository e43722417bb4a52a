"""Decoding: drawing documents from a language model.

`options` says what can be asked for. `kernels` draws a token from logits, `uniforms` gives the
random numbers. `engine` keeps a device busy with documents, which wait in `rooms`; `sampling` and
`beam` say what a step is, `ngram` does the same faster for counted models. `graphs` records steps
for a GPU, `memory` fits batches into what is free. `generation` chooses among all this, `output`
writes.
"""
