"""The two roots of a grid on OCI as Terraform's JSON: storage outlives machines, grid is what runs."""
