"""Findings over time: rounds of the doctor's checks, what is open since when, and who is told."""
