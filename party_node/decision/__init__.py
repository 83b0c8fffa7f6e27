"""May we take part in a release?"""
