"""Commands of `mahala` for searches: adapt, evaluate and simulate."""
