"""The sidecar: better query vectors and orders for the engine of a team, and the proof of their gain."""
