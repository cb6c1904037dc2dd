"""What nodes are and ought to be: read-only checks of every node of a grid."""
