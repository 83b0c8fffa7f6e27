"""Generated stubs of protocol version 1: run `make protos` to regenerate, never edit."""
