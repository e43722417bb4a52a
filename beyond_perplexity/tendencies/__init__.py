"""Statistical tendencies of text: counting, power laws, distances, tests and their sensitivity."""
