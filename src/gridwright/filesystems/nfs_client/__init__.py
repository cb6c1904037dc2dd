"""What all kinds of file systems that nodes mount by NFS share: health and counters of a mount."""
