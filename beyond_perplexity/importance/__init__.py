"""Importance sampling of latent language models: estimates, bounds and how far to trust them."""
