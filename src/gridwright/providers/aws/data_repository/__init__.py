"""Repositories that FSx for Lustre carries itself: its associations, and the tasks that move files."""
