"""Verbs that look after the data of libraries: where they lie, and copies in object storage."""
