"""Estimators of log p(x) = log Σ_z p(x, z), a file each; `rows` lists them."""
