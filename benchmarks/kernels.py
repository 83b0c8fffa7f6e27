"""Where processor time goes: mixing, secret noise, and each step of a joint computation, for all hospitals together."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common.report import Results, main
from dprelease.mechanisms.noisy_rows import mixing
from dprelease.mechanisms.noisy_rows.mixing import BernoulliMixing, BucketMixing
from dprelease.mpc.encryption import ColumnCipher, Context
from dprelease.mpc.modulus import FIELD
from dprelease.mpc.proof.claim import Claim, GridInterval
from dprelease.mpc.proof.parts import RangeProver, RangeVerifier, encoded_answer
from dprelease.mpc.proof.plan import ProofPlan
from dprelease.mpc.ring import Words, chunk_rows
from dprelease.privacy.noise import SecureNoise
from dprelease.privacy.public_stream import PublicStream


def profile(rows: int, columns: int, parties: int) -> dict[str, float]:
    """Processor seconds of each step, all hospitals together.

    Args:
        rows: n.
        columns: of all hospitals.
        parties: m.
    """
    width = -(-columns // parties)
    size = chunk_rows(width)
    chunks = -(-rows // size)
    pairs = parties * (parties - 1) // 2
    copies = parties * (parties - 1)  # of one hospital's masked columns, each to one partner
    seed = bytes(32)
    words = FIELD.read(seed, 0, size, width)
    small = (words >> np.uint64(45)).astype(np.int32) - (1 << 15)
    cipher = ColumnCipher(bytes(32), Context("columns", "", "", "", "", ""))
    plain = words.tobytes()
    sealed = cipher.encrypt(0, plain)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "body"
        return {
            "keystream (deal, mask, multiply)": _seconds(lambda: FIELD.read(seed, 0, size, width))
            * chunks
            * (2 * pairs + copies + pairs),
            "dealer's products A'A": _seconds(lambda: FIELD.product(words, words)) * chunks * pairs,
            "first halves A'U": _seconds(lambda: FIELD.product(words, words)) * chunks * pairs,
            "second halves U'Q": _seconds(lambda: FIELD.product(words, small, right_bits=16)) * chunks * pairs,
            "own moments Q'Q": _seconds(lambda: FIELD.product(small, small, left_bits=16, right_bits=16))
            * chunks
            * parties,
            "masking Q + A": _seconds(lambda: FIELD.add(FIELD.elements(small), words)) * chunks * copies,
            "encryption": _seconds(lambda: cipher.encrypt(0, plain)) * chunks * copies,
            "decryption": _seconds(lambda: cipher.decrypt(0, sealed)) * chunks * copies,
            "SHA-256 at sender, relay and receiver": _seconds(lambda: hashlib.sha256(plain)) * chunks * copies * 3,
            "writing bodies at sender and relay": _seconds(lambda: path.write_bytes(plain)) * chunks * copies * 2,
            **_proofs(rows, width, parties),
        }


def _proofs(rows: int, width: int, proofs: int) -> dict[str, float]:
    """Processor seconds of each step of range proofs of numbers on the usual grid."""
    sample, grid = 1 << 17, 1 << 16
    plan = ProofPlan(Claim((GridInterval(-grid, grid),) * width), sample, Context("proof", "", "", "p", "r", "d"))
    codes = np.random.default_rng(2).integers(-grid, grid + 1, (sample, width)).astype(np.int32)
    seeds = [number.to_bytes(32, "big") for number in range(6)]

    def masks(start: int, count: int) -> Words:
        return FIELD.read(seeds[5], start, count, width)

    bits = plan.claim.bits(codes)
    prover = RangeProver(plan, codes, masks, seeds[3], seeds[4], bits)
    matrices, lines = prover.first(seeds[0]), prover.second(seeds[0], seeds[1])
    answer = encoded_answer(plan, masks, seeds[3], (seeds[0], seeds[1], seeds[2]))
    verifier = RangeVerifier(plan, seeds[4], (seeds[0], seeds[1], seeds[2]), (matrices, lines))
    shown = [(prover.masked_columns(*chunk), prover.masked_bits(*chunk)) for chunk in plan.chunks()]
    times = proofs * rows / sample
    return {
        "proofs: bits": _seconds(lambda: plan.claim.bits(codes), 3) * times,
        "proofs: matrices M": _seconds(lambda: prover.first(seeds[0]), 3) * times,
        "proofs: lines T": _seconds(lambda: prover.second(seeds[0], seeds[1]), 3) * times,
        "proofs: dealers' answers": _seconds(
            lambda: encoded_answer(plan, masks, seeds[3], (seeds[0], seeds[1], seeds[2])), 3
        )
        * times,
        "proofs: receivers' checks": _seconds(lambda: verifier.check(answer, shown), 3) * times,
    }


def run(quick: bool) -> Results:
    """Mixing, draws of secret noise a second, and each step of a joint computation, n = 1e6, three hospitals."""
    results = Results()
    for outputs, columns in ((400, 2),) if quick else ((400, 2), (1000, 20), (4000, 50)):
        _mixing(results, 1_000_000, outputs, columns, parts=10 if quick else 1)
    for scale in (70.3, 1e9) if quick else (0.5, 70.3, 13_233.5, 1e9, 6.7e16):
        _noise(results, scale)
    for columns in (30,) if quick else (30, 100):
        spent = profile(1_000_000, columns, 3)
        for step, seconds in spent.items():
            results.add(f"n = 1e6, {columns} columns, 3 hospitals: {step}: processor seconds", seconds)
        results.add(f"n = 1e6, {columns} columns, 3 hospitals: all steps: processor seconds", sum(spent.values()))
    return results


def _mixing(results: Results, rows: int, outputs: int, columns: int, parts: int) -> None:
    """Exact mixtures of codes of 16 bits beside numpy's `rng.choice @`, whose time is that of one of so many parts of the rows."""
    random = np.random.default_rng(1)
    codes = random.integers(-(1 << 16), 1 << 16, (rows, columns)).astype(np.int32)
    stream = PublicStream(bytes(32))
    case = f"n = {rows:,}, k = {outputs}, {columns} columns"

    def usual() -> None:
        for first in range(0, rows // parts, 10_000):  # the matrix of a million rows would take gigabytes
            part = codes[first : first + 10_000].astype(np.float64)
            random.choice([-1.0, 1.0], size=(outputs, len(part))) @ part

    def bernoulli() -> bytes:
        return BernoulliMixing(stream, outputs, rows).apply([codes]).tobytes()

    with threadpool_limits(1):
        baseline = _seconds(usual, 1) * parts
    results.add(f"{case}: rng.choice @: processor seconds", baseline)
    made = []
    for name, worth, reach in (("numpy", rows * outputs * columns, None), ("numba", 0, 45.0)):
        with mock.patch.object(mixing, "WORTH_COMPILING", worth):
            results.add(
                f"{case}: bernoulli, {name}, first call: processor seconds",
                _seconds(lambda: made.append(bernoulli()), 1),
            )
            results.add(f"{case}: bernoulli, {name}: times as fast", baseline / _seconds(bernoulli, 3), reach, ">=")
    results.add(f"{case}: numpy and numba differ", float(len(set(made)) - 1), 0.0)
    taken = _seconds(lambda: BucketMixing(stream, outputs, rows).apply([codes]), 3)
    results.add(f"{case}: buckets: times as fast", baseline / taken, 100.0, ">=")


def _noise(results: Results, scale: float) -> None:
    """Draws a processor second of the production source, in whole blocks, beside another exact sampler's."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    other, source = dp.m.make_gaussian(*space, scale=scale), SecureNoise()
    ours = 1_000_000 / _seconds(lambda: source.discrete_gaussian(scale, (100_000, 10)), 5)
    theirs = 20_000 / _seconds(lambda: other([0] * 20_000), 3)
    results.add(f"noise of scale {scale:g}: million draws a processor second", ours / 1e6, 5.0, ">=")
    results.add(f"noise of scale {scale:g}: the same of OpenDP's sampler", theirs / 1e6)


def _seconds(step: Callable[[], object], repeats: int = 15) -> float:
    """Median processor seconds of a step."""
    spent = []
    for _ in range(repeats):
        started = time.process_time()
        step()
        spent.append(time.process_time() - started)
    return float(np.median(spent))


if __name__ == "__main__":
    main("kernels", run)
