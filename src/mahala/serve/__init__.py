"""Search that learns from the people who use it: a store, a learner, and an HTTP API."""
