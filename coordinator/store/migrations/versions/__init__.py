"""One file a revision, named by its number. A layout goes forward only: who must go back restores the copy from before."""
