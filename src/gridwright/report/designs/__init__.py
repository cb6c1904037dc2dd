"""Predictions and plans as pages and words."""
