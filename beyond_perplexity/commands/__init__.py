"""The commands that people call, a module each: its options, and what it does with them."""
