"""Proposal distributions q(z | x), one file per family."""
