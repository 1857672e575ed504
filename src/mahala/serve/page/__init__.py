"""The page of `mahala serve`: rooms to search, to teach and to watch."""
