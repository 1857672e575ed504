"""The papers: each file holds the protocol and the published numbers of one of them as data."""
