"""Everything between roles: stubs, the status table, TLS channels and servers, chunks, progress, retry, exit codes."""
