"""What is too long for every submission: `make long`."""
