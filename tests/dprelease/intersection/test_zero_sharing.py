"""Shares of zero cancel among all parties and among no fewer."""

from itertools import combinations
from secrets import token_bytes

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dprelease.intersection.zero_sharing import pseudorandom, shares


def test_shares_of_all_parties_cancel_and_those_of_fewer_do_not() -> None:
    parties = range(4)
    seeds = {pair: token_bytes(32) for pair in combinations(parties, 2)}
    labels = np.frombuffer(token_bytes(16 * 50), np.uint8).reshape(50, 16)
    made = [shares([seed for pair, seed in seeds.items() if party in pair], labels) for party in parties]
    assert not np.bitwise_xor.reduce(made).any()
    for count in (1, 2, 3):
        for some in combinations(made, count):
            assert np.bitwise_xor.reduce(some).all()


def test_the_function_is_one_block_of_aes() -> None:
    seed, labels = token_bytes(32), np.arange(32, dtype=np.uint8).reshape(2, 16)
    cipher = Cipher(algorithms.AES256(seed), modes.CBC(labels[1].tobytes())).encryptor()
    block = cipher.update(bytes(16))  # of a zero block under this chaining value
    assert pseudorandom(seed, labels)[1] == int.from_bytes(block[:8], "little")
