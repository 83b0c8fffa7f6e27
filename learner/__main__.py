"""`python -m learner` is `learner`."""

from learner.cli.main import main

main()
