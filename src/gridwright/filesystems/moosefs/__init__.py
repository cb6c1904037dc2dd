"""MooseFS on servers of one's own."""
