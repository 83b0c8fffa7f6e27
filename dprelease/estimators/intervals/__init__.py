"""Knowledge of coefficients: intervals and identifiability."""
