"""Proposals: distributions of latent variables given the words, one family a file."""
