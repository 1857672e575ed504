"""Studies that reproduce papers: one file per paper, with its protocol and its published numbers."""
