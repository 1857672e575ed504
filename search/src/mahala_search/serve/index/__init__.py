"""Search among the items of a collection."""
