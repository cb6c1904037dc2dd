"""What else used a node while something was measured on it, and whether a proof can bear that."""
