"""The performance model: resources and flows, the rates they come to, and what binds them."""
