"""The joint distribution of all columns of a release of moments: a mixture of products, fitted to every released entry."""
