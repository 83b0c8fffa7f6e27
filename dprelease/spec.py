"""The release spec: everything that the parties agree on, fixed before anything data-dependent is computed.

A spec is immutable. Its SHA-256 over canonical bytes is the release's identity; every approval, block and manifest is
bound to it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, SerializeAsAny

from dprelease.mechanisms.registry import read_terms
from dprelease.spec_base import SpecBase, Terms


class ReleaseSpec(SpecBase):
    """A release spec whose terms are those of a registered mechanism. Field by field in docs/format.md."""

    terms: Annotated[SerializeAsAny[Terms], BeforeValidator(read_terms)]
