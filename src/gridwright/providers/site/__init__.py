"""Provider site: nodes, head node and scheduler that a site runs by itself."""
