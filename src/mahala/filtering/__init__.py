"""Online filters: they say whether a document is relevant before they are told, and learn from the answer."""
