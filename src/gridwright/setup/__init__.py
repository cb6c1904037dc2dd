"""Sets nodes up: the tuning table, the playbook and its roles."""
