"""A Spectrum Scale cluster, made as the grid wants it: only what differs is changed."""
