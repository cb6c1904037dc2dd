"""Microsoft Azure: grids there are predicted, not made."""
