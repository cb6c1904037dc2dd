"""Amazon FSx for Lustre."""
