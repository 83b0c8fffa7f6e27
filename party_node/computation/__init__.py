"""The hospital's side of joint moments: the session with its peers, from session keys to a frozen block."""
