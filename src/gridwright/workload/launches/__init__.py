"""A launch: how it is started, guarded, measured and accounted for."""
