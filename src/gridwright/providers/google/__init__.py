"""Google Cloud: grids there are predicted, not made."""
