"""What `up` of a grid on OCI would fail of, looked at before anything is made."""
