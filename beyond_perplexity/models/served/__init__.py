"""Models behind a server, asked by HTTP for the log-probabilities of the tokens of a text."""
