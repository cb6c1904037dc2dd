"""Lustre on servers of one's own."""
