"""The dashboard: pages for analysts, privacy officers, operators and the people whose devices report.

It asks the public API and nothing else, so that whatever it shows can be asked for by anybody with the same token.
"""
