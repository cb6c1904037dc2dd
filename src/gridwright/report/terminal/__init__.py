"""Results on the terminal, out of the same records as the pages."""
