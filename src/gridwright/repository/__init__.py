"""A library's files in object storage, and back: names, contents, and proof that both are the same."""
