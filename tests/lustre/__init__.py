"""Tests on a real Lustre, in a virtual machine."""
