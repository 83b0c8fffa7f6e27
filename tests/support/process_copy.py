"""Two copies of one process with the same memory and the same process number, as a restored snapshot of a machine has them.

`python -m tests.support.process_copy` prints a JSON object: for every kind of secret, what the original drew and what the
copy drew. Linux and root only: a copy gets its number in a namespace of its own.
"""

import ctypes
import json
import os
import struct
import sys
from typing import Any

import opendp.prelude as dp

from dprelease.mpc.encryption import Context, new_session_key, private_bytes, public_bytes, seal
from dprelease.privacy.noise import SecureNoise

NEW_NUMBERS = 0x20000000  # CLONE_NEWPID
CLONE3 = 435
SIGCHLD = 17


def draw() -> dict[str, Any]:
    """Every kind of secret that a hospital draws for a release, and OpenDP's noise, which keeps a state in the process."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return {
        "noise": SecureNoise().discrete_gaussian(1e9, (1, 4)).tolist(),
        "session key": private_bytes(new_session_key()).hex(),
        "sealed": seal(public_bytes(new_session_key()), b"a seed", Context("seed", "", "", "", "", "")).hex(),
        "opendp": list(dp.m.make_gaussian(*space, scale=1e9)([0] * 4)),
    }


def main() -> None:
    """Draw once, copy the process, draw in both."""
    dp.enable_features("contrib")
    draw()  # it has worked before
    libc, number, (read, write) = ctypes.CDLL(None, use_errno=True), os.getpid(), os.pipe()
    if libc.unshare(NEW_NUMBERS):
        sys.exit(f"no namespace of process numbers: {os.strerror(ctypes.get_errno())}")
    if os.fork() == 0:
        wanted = (ctypes.c_int * 1)(number)
        # struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, its size, cgroup
        given = (ctypes.c_uint64 * 11)(0, 0, 0, 0, SIGCHLD, 0, 0, 0, ctypes.addressof(wanted), 1, 0)
        copied = libc.syscall(CLONE3, ctypes.byref(given), ctypes.sizeof(given))
        if copied < 0:
            os._exit(1)
        if copied == 0:
            words = json.dumps(draw() | {"number": os.getpid()}).encode()
            os.write(write, struct.pack("<I", len(words)) + words)
            os._exit(0)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(copied, 0)[1]))
    if os.waitstatus_to_exitcode(os.wait()[1]):
        sys.exit("the process could not be copied")
    (size,) = struct.unpack("<I", os.read(read, 4))
    copy = json.loads(os.read(read, size))
    original = draw() | {"number": number}
    sys.stdout.write(json.dumps({kind: [original[kind], copy[kind]] for kind in original}))


if __name__ == "__main__":
    main()
