"""Verbs that plan a grid."""
