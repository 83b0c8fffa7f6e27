"""The software's version and the protocol's."""

__version__ = "0.1.0"
