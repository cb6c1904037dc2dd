"""A directory that an NFS server exports."""
