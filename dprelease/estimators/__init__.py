"""What learners fit on a release."""
