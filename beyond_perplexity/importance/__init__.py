"""Importance sampling: proposals, log weights, estimates and their diagnostics."""
