"""Keys, signatures, certificates and invitations."""
