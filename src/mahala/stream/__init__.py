"""Learning from a stream of JSON lines, with a model file that stores the position in the stream."""
