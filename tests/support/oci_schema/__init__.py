"""What the Terraform provider of OCI takes, as facts in a file, and the check of a root against them."""
