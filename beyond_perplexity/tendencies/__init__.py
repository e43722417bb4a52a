"""Statistical tendencies of text: sufficient statistics, power laws, distances and tests.

The way of the data: `statistics` counts a shard, `spill` merges, `power_laws` fits, `distances`
compares, `histograms`, `type_token` and `unigrams` permute and resample documents, `measures` and
`curves` make the tables. Source of all definitions: "Language Model Evaluation Beyond Perplexity"
(2021).
"""
