"""Evaluators: what gives two texts a similarity; a module a family, a row each in `rows`."""
