"""How a word that a closed vocabulary lacks is spelled: a character model of rare types."""
