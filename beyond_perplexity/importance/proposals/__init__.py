"""The proposals q(z | x) of the latent models, one file each."""
