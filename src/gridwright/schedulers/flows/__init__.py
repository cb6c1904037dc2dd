"""Flows: jobs with names that wait for each other, written in one file and submitted together."""
