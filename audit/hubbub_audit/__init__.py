"""The privacy claims, attacked: what a suspicious reader would try against the code that ships, with its error bars.

`hubbub audit` runs it. It may know everything (client, shuffler, aggregator, core); nothing that it attacks knows it.
"""
