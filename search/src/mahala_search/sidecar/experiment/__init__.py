"""Whether what was learned is better than plain search, by what people do."""
