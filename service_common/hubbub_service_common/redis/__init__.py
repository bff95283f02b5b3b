"""Redis for both services: a client, a check of durability, and the rewrite of files after a deletion."""
