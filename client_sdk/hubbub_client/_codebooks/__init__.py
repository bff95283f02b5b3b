"""The signed bundle and the codebooks in force."""
