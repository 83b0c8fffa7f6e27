"""Imported by every interpreter that starts with this folder on its path: processes under test know the toy mechanism."""

from tests.mechanisms.toy import add

add()
