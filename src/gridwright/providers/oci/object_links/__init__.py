"""Links of managed Lustre with Object Storage: their jobs, how they stand, and what is in the bucket."""
