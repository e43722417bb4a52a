"""EntityNLM: model, instances, proposals."""
