"""Another function in the place of one of the project's, wherever it was imported."""

import sys

PROJECT = ("dprelease", "party_node", "coordinator", "learner")


def replace(original: object, made: object) -> None:
    """Put another function in the place of one, in all modules of the project that were imported before."""
    for module in [each for name, each in sys.modules.items() if name.partition(".")[0] in PROJECT]:
        for name in [name for name, value in vars(module).items() if value is original]:
            setattr(module, name, made)
