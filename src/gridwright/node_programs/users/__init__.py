"""Accounts of a grid on one machine: numbers, keys of ssh, homes, and SSSD for a directory of users."""
