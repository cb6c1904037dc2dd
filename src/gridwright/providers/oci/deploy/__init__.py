"""How the two Terraform roots of a grid are carried out: by Resource Manager, or by a tool that is here."""
