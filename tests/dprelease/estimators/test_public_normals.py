"""Public numbers."""

import numpy as np

from dprelease.privacy.public_stream import PublicNormals, PublicStream


def test_numbers_are_words_of_the_public_stream_in_order():
    seed = bytes(range(32))
    normals = PublicNormals(seed)
    taken = np.concatenate([normals.uniform(3), normals.uniform(2, 2).ravel()])
    words = np.frombuffer(PublicStream(seed).read(0, 64), "<u8")
    expected = [
        (int(word) // 2**11 + 0.5) / 2**53 for word in words[[0, 1, 2, 4, 5, 6, 7]]
    ]  # a draw ends on a whole block
    np.testing.assert_array_equal(taken, expected)


def test_numbers_are_those_of_their_laws():
    """First four moments and the correlation of neighbours, each within five standard errors."""
    count = 200_000
    drawn = PublicNormals(bytes(32)).normal(count)
    for value, expected, variance in (
        (drawn.mean(), 0, 1),
        ((drawn**2).mean(), 1, 2),
        ((drawn**3).mean(), 0, 15),
        ((drawn**4).mean(), 3, 96),
        ((drawn[1:] * drawn[:-1]).mean(), 0, 1),
    ):
        assert abs(value - expected) < 5 * np.sqrt(variance / count)
    assert np.isfinite(drawn).all()
