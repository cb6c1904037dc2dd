"""Looks at the nodes of a grid, read-only, and says what is wrong with them."""
