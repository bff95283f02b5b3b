"""The parts of `hubbub_client.testing`, one per module."""
