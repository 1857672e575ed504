"""What was clicked for each query, and how it changes a ranking."""
