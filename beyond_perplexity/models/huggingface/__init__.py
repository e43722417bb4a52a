"""Models that were trained elsewhere, by Hugging Face's transformers."""
