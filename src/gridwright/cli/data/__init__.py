"""Verbs that move data: between a library and object storage."""
