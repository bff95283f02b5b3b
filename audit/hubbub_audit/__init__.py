"""Attacks on the privacy claims: what a suspicious reader would try against the code that ships, with error bars.

`hubbub audit` runs them. The audit may import everything (client, shuffler, aggregator, core); nothing that it attacks
imports the audit.
"""
