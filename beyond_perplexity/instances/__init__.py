"""What latent language models read: token strings with annotations, stored and batched."""
