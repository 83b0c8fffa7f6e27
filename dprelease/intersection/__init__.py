"""Private set intersection of two to ten parties: each learns which of its own elements all parties have, and sizes.

A subject of its own that knows no patient, no statistic and no transport. Read `session` first.

Source: docs/protocol.md, "Aligning"; guarantees in docs/guarantees.md 23.
"""
