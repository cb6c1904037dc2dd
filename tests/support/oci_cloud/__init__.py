"""A double of OCI for its real SDK: Resource Manager that runs what it is given, compute, and search."""
