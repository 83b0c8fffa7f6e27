"""How many printed findings of a release of patients without effects are false."""
