"""`mahala serve` and its commands."""
