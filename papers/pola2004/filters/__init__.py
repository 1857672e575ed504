"""Online filters, which predict whether a document is relevant and then learn from the answer."""
