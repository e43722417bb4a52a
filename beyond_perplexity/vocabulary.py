"""Closed (word) and open (BPE) vocabularies. Interface; see the module that fills it in."""
