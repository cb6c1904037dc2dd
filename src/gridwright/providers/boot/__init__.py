"""What machines of every cloud start with: shell and Python that become user data and bundle.

What differs is one module for each cloud: `cloud.py`, in `boot/` of its provider, beside set_up.py.
"""
