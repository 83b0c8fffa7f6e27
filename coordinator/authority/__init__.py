"""The certificate authority, and how a consortium is founded."""
