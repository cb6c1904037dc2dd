"""What Slurm runs on each node now and then: a node without its mounts takes no jobs until they are back."""
