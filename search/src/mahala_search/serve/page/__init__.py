"""The page of `mahala serve`: tabs to search, to teach and to watch."""
