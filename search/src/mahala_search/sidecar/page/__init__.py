"""The page of the sidecar: the report of each space. It is the same for everyone; its script asks the API."""
