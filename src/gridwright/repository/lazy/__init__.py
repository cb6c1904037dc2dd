"""Contents of a repository's files are loaded when somebody reads them, range by range."""
