"""What the person who runs `up`, `status` and `down` needs of AWS: policies that a site attaches."""
