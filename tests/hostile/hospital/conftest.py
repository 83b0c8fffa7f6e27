"""Hospitals with a coordinator and a hub that do what a test makes them do, behind real mutual TLS."""

from tests.party_node.conftest import authority, careful, folder, make_world, members, world

__all__ = ["authority", "careful", "folder", "make_world", "members", "world"]
