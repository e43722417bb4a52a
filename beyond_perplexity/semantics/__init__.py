"""Whether what models predict means what is there: predictions, measures, evaluators, baselines."""
