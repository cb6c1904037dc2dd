"""Tables that the file of what is known of a repository has for what changelogs tell."""

CHANGE_TABLES = (
    "changelogs (mdt TEXT PRIMARY KEY, user TEXT, read_to INTEGER, taken_s REAL)",
    "pending (path BLOB PRIMARY KEY, is_tree INTEGER)",
    "gone (path BLOB PRIMARY KEY)",
)
"""How far each changelog was taken, paths to be looked at, and paths of rows whose files are gone."""
GONE_BY_CHANGES = "path IN (SELECT path FROM gone) AND inode <> 0"
"""Rows of files that were here and are gone, as changelogs tell it: found without a look at all rows."""
