"""The linear map of queries: how it is learned, stored and applied."""
