"""The model against the published figures, as docs/papers.md and in words."""
