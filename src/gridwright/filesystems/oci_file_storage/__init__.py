"""A directory that Oracle's File Storage exports by NFS: homes, configuration, programs."""
