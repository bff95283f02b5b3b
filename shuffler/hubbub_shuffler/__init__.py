"""The shuffler: sees who, never what. Not written yet: this package only holds its place in the import contracts."""
