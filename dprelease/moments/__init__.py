"""Joint moments: a noisy Gram matrix of all parties' columns that they compute together while nobody sees a row."""
