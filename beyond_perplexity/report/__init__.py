"""Tables, pages and published values: what a reader of the results sees beside the figures."""
