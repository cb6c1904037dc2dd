"""Claims the identity of a machine at every start: a name, an address and volumes that outlive instances.

Contract with everything that runs it (user data, roles, `gridwright node claim`):

- The program is `claim.pyz` (`gridwright.providers.aws.machine_files.CLAIM`), run as root:
  `python3 claim.pyz [--config FILE] [--name-only] [--dry-run] [--json]`, with Python 3.9 or newer and boto3.
- FILE is /etc/gridwright/claim.json by default, in the form that `configuration` describes. The program
  never writes it.
- A table of DynamoDB says which instance is which machine (`records`). A slot changes hands by one
  conditional write, and its token rises with each; later steps are only carried out while both are ours.
- What it is is written to /run/gridwright/node.json; --name-only ends there, and leaves volumes for later.
- Exit status: 0 all is claimed and mounted, 2 FILE is wrong, 3 refused or failed, 130 and 143 interrupted;
  the next start finishes.

`deciding` is pure: what is seen goes in, the next step comes out. Every effect goes through `cloud` and
`machine`. Modules here import the standard library, boto3 (late), and `gridwright.node_programs.scratch`.
"""
