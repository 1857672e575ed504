"""Compare learners by cross-validation: plan, measure and summarise."""
