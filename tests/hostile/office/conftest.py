"""A real coordinator, called over real TLS."""

from tests.coordinator.conftest import two, world

__all__ = ["two", "world"]
