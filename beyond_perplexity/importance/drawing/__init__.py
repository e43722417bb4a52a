"""What runs a latent model: weights, beams, sequential Monte Carlo."""
