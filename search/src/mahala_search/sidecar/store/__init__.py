"""The database: spaces, what was shown and done, vectors, models, and the one process that learns."""
