"""Importance sampling: proposals, log weights, estimates."""
