"""Whom `on_review` tells that a release waits for a person: a command of this machine, or an address of the hospital's own."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator

_WORDS = 'is a command and its arguments, such as ["/usr/local/bin/tell", "the board"], or an address, "https://..."'


def _checked(target: object) -> object:
    if isinstance(target, list | tuple):
        words = tuple(target)
        if not words or not words[0] or not all(isinstance(word, str) and "\0" not in word for word in words):
            raise ValueError(_WORDS)
        return words
    if not isinstance(target, str):
        raise ValueError(_WORDS)  # noqa: TRY004 - what pydantic reports
    try:
        url = urlsplit(target)
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise ValueError(_WORDS) from error
    if not target.isprintable() or " " in target or host is None or url.scheme not in {"http", "https"}:
        raise ValueError(_WORDS)
    if url.scheme == "http" and not is_loopback(host):
        raise ValueError("is an address of http, which only this machine's own may be; use https")
    if url.username is not None:
        raise ValueError("has a user or a password in its address, which is not sent; use a command instead")
    return target


def is_loopback(host: str) -> bool:
    """Tells whether a host is this machine, by its address or as ``localhost``."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


ReviewTarget = Annotated[str | tuple[str, ...], BeforeValidator(_checked)]
"""A URL, or a command with its arguments."""
