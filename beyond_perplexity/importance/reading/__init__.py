"""Shards of draws and other people's weights, read and checked."""
