"""YAML that people write: positions of all values, and all problems at once, each with line and caret."""
