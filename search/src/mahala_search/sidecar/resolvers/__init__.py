"""Resolvers: vectors of items, by their ids, from the engine of a team."""
