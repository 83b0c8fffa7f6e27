"""`python -m party_node` is `party-node`."""

from party_node.cli.main import main

main()
