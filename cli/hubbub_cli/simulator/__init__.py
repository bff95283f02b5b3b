"""The parts of `hubbub simulate`, one concept each."""
