"""What several families of models share."""
