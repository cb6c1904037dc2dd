"""The command line: one module per verb; each parses, calls one room and prints."""
