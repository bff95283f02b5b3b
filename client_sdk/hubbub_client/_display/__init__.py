"""What people see: preview, inspection and their wording."""
