"""The page of a sweep over numbers of streams."""
