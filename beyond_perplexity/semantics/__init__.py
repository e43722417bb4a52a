"""The meaning of what models predict, beside what was written."""
