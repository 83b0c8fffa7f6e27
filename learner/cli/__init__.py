"""Commands of a learner."""
