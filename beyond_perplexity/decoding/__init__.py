"""Decoding: drawing documents from a language model.

`rows` names the decodings and `options` reads what is asked for. `kernels` draws a token from
logits, `contexts` holds those of counted models; `kinds` has a module for each decoding, which says
what is drawn from. `engine` keeps a device busy with documents, which wait in `rooms`; `sampling`
and `beam` say what a step is, `ngram` does the same faster for counted models. `graphs` records
steps for a GPU, `memory` fits batches into what is free. `generation` chooses among all this,
`output` writes.
"""
