"""Learning a query map from feedback, and judging what it learns."""
