"""Verbs that check, measure and prove a grid."""
