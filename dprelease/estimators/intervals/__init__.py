"""What is known of coefficients: intervals and identifiability."""
