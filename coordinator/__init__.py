"""The consortium's office: who takes part, which releases are proposed, and where each one stands. It holds no data."""
