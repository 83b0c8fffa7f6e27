"""Privacy as arithmetic: mu and (epsilon, delta), secret noise, public streams, calibration, cost as text."""
