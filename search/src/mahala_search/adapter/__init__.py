"""QueryAdapter: a map of queries, a memory of clicks, and how far both are trusted."""
