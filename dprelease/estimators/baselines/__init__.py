"""Methods of papers, to compare with."""
