"""How many intervals hold the truth, by population, method and way of release."""
