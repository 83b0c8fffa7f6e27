"""Joint moments: the noisy Gram matrix of all hospitals' columns."""
