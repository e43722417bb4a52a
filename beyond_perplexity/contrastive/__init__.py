"""How well a model tells a text from its distortions."""
