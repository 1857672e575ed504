"""How much of what was learned is served, decided by its gain on later feedback."""
