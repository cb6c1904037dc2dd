"""Launches that do what launch profiles say: they compute, read, write and hold memory, and mean nothing."""
