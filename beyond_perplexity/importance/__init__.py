"""Importance sampling: proposals, log weights, estimates of what cannot be summed."""
