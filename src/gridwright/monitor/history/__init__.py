"""What nodes did before now: kept by their own samplers, asked from elsewhere."""
