"""Measures of the source and of the pages, what they are to reach, and what is reached: `make measures` prints them."""
