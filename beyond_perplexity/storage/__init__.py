"""Files that are written whole or not at all, and where they came from."""
