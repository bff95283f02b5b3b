"""The parts of `hubbub_client.testing`, one concept each."""
