"""`python -m hubbub_cli` is `hubbub`."""

from hubbub_cli.main import main

main()
