"""A lab: a grid of several nodes in Linux namespaces of one machine."""
