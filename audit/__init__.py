"""The auditor of a whole consortium: reads the states of all roles side by side and says what does not agree.

Only somebody who has every folder on one disk can do this: a demo, a test, a drill. It changes nothing.
"""

from audit.invariants import Violation, audit

__all__ = ["Violation", "audit"]
