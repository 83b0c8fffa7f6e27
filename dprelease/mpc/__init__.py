"""Exact products of secret matrices between several parties: nobody sees another's matrix, each holds a share of every product."""
