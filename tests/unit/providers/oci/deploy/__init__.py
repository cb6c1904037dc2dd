"""Tests of how the roots are carried out."""
