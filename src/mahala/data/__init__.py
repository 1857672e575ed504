"""Tables, array files and data sets by name."""
