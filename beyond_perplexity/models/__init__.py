"""Language model families behind one contract."""
