"""Redis as both services use it: one client, one durability check, one rewrite of files after a deletion."""
