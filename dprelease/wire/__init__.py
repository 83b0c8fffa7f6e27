"""Everything between roles: stubs, the status table, TLS channels and servers, chunks, progress, retry, exit codes."""

import os

# gRPC itself writes a line to standard error for every handshake that fails, and nobody counts them. It reads this when it is
# imported, which every command does for the first time from this package.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
