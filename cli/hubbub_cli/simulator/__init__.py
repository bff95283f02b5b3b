"""Parts of `hubbub simulate`, one concept each."""
