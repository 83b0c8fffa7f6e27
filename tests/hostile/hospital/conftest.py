"""Hospitals with a coordinator and a hub that do what a test makes them do, behind real mutual TLS."""

from tests.party_node.conftest import authority, careful, folder, make_world, members, world
from tests.party_node.test_enrolment import invite, listener, office

__all__ = ["authority", "careful", "folder", "invite", "listener", "make_world", "members", "office", "world"]
