"""Oracle Cloud Infrastructure: nodes by shape. Grids there are planned and predicted, not yet made."""
