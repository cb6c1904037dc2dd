"""The model held against the figures that papers published."""
