"""Subcommands of `hubbub`, one file each."""
