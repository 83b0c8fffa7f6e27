"""`python -m learner` is `learner`."""

from learner.cli import main

main()
