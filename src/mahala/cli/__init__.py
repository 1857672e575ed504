"""Command line: the app is in main.py, each command in its own file."""
