"""Commands of the sidecar: `mahala serve`."""
