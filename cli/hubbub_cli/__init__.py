"""The `hubbub` command, one file per subcommand. Rows to stdout, progress to stderr, `--json` on all that end."""
