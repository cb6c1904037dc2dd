"""Compares the model with the figures that papers published."""
