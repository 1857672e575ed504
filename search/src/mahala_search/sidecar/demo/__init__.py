"""The demo of the sidecar: a small engine with dishes of the world, and people who search in it."""
