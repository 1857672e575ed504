"""Commands of `mahala` for searches: adapt and evaluate."""
