"""Families with latent variables, and their proposals: RNNG, KGLM, EntityNLM."""
