"""What shells and manuals know of the commands."""
