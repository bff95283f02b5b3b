"""HTTP with one deadline for name, connection, handshake and body."""
