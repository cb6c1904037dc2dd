"""Verbs that look after the data of libraries."""
