"""Files that are written whole or not at all, where they came from, and tables of users."""
