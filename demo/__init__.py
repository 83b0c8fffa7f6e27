"""The whole system on one machine: real processes, real certificates, a real survey."""
