"""A two-sample test of documents by what an encoder of sentences makes of them."""
