"""n-gram models: counting, modified Kneser–Ney, ARPA files, scoring; nothing here imports torch."""
