"""Verbs that look after the data of libraries: their layouts, and their way to object storage and back."""
