"""Verbs that make, change and remove a grid."""
