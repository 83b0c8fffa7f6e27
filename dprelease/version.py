"""The software's version and the protocol's."""

from importlib.metadata import version

__version__ = version("dprelease")
