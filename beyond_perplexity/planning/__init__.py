"""What the rules look up in a configuration."""
