"""The command line: main.py is the app, each other file a command."""
