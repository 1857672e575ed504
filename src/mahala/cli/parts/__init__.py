"""What commands share, and the longer parts of a command."""
