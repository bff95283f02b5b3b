"""The dashboard: pages for analysts, privacy officers, operators and the people whose devices report.

It asks the public API and nothing else, so that anyone with the same token can ask for whatever it shows.
"""
