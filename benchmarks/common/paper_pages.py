"""Tables of docs/benchmarks.md that set methods of papers beside ours, as of `benchmarks.common.pages`."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from benchmarks.common.pages import read, table

_NOTES = {"Superconductor": "¹", "GPU": "²", "Music Song": "²"}
"""Marks of tables that are no files."""
_PRIMO = {
    "haplotypes": "1000 Genomes haplotypes, 25 SNPs",
    "genotypes": "1000 Genomes genotypes, 25 SNPs",
    "Gaussian, linear": "Gaussian, linear outcomes",
    "Gaussian, MLP": "Gaussian, outcomes of a network",
}
_SUMS = {
    "each by itself": "each prefix by itself",
    "tree": "tree",
    "square root": "square root, Toeplitz",
    "normalised": "square root, columns of norm 1",
}
_STREAMS = (
    ("dense, L2 ball", 10, 1024),
    ("dense, L2 ball", 10, 4096),
    ("dense, L2 ball", 10, 16_384),
    ("sparse, L1 ball", 25, 4096),
    ("sparse, L1 ball", 200, 4096),
)
"""Data, d and T."""


def multiparty() -> None:
    """Test losses over that of the constant predictor, epsilon = 1."""
    rows = []
    for cell in _details("paper_multiparty")["table cells"]:
        if cell["epsilon"] == 1:
            best = f"rmgm {cell['oracle k']}"
            losses = [cell["ols"], *(cell["losses"][name]["mean"] for name in (best, "default", "moments"))]
            title = f"{cell['table']}{_NOTES.get(cell['table'], '')}, n = {cell['n']:,}"
            rows.append((title, *(f"{loss / cell['constant']:.2f}" for loss in losses)))
    head = ("without privacy", "RMGM, best k picked on the test rows", "blocks", "joint moments")
    table(("test loss over that of the constant predictor, epsilon = 1", *head), rows)


def primo() -> None:
    """Mean R^2 of the most outcomes."""
    points = _details("paper_primo")["against l"]
    most, methods = max(each["l"] for each in points), ("ols", "proj p", "proj", "proj ours", "gauss", "descent")
    rows = [
        (
            f"{_PRIMO[each['data']]} ({each['n']:,})",
            *(f"{each['methods'][method]['R2']:.2f}".replace("0.", ".").replace("-.00", ".00") for method in methods),
        )
        for each in points
        if each["l"] == most
    ]
    head = ("not private", "PRIMO's projection as published", "the same, noise corrected", "ours, feature-DP")
    table(("data (n)", *head, "ReuseCov-Gauss, full DP", "gradient descent, oracle's choices"), rows)


def prefix_sums() -> None:
    """Largest standard deviation of a prefix sum, by factor and T."""
    found = _details("paper_incremental")["prefix sums, standard deviations in units of Delta/mu"]
    rows = [
        (title, *(f"{each[f'{name}, worst']:.{2 if name == 'each by itself' else 3}f}" for each in found))
        for name, title in _SUMS.items()
    ]
    table(("T", *(f"{each['T']:,}" for each in found)), rows)


def excess_risk() -> None:
    """Largest excess risk over a stream, mean over runs."""
    cells = {
        (each["data"], each["d"], each["T"]): each["excess"]
        for each in reversed(_details("paper_incremental")["excess risk"])
    }
    rows = []
    for data, d, steps in _STREAMS:
        excess = cells[data, d, steps]
        methods = ("trivial", "reg1 p", "reg1 tree", "reg1", "erm" if "erm" in excess else "fw", "reg2")
        means = (f"{fmean(excess[method]):,.0f}" if method in excess else "-" for method in methods)
        rows.append((f"{data.split(',')[0]}, d = {d}, T = {steps:,}", *means))
    head = ("weights 0", "PrivIncReg1, paper's noise", "tree, corrected", "normalised square root")
    table(("stream", *head, "PrivIncERM, corrected", "PrivIncReg2, corrected"), rows)


def synthetic_control() -> None:
    """Root mean square errors of the path, in public bounds at lambda = T0."""
    rows = []
    for each in _details("paper_synthetic_control")["points"]["bounds, epsilon"]:
        if each["epsilon"] in (10, 200):
            error = {name: _rounded(value) for name, value in each["rmse"].items()}
            rows.append(
                (
                    f"{each['before']}, {each['donors']}",
                    f"{each['epsilon']:g}",
                    error["ridge"],
                    error["out"],
                    f"{error['obj']}, {error['obj gauss']}",
                    error["tight"],
                    error["posterior"],
                )
            )
    private = "objective, published (Laplace, Gaussian), NOT PRIVATE"
    ours = ("ours, plain product", "ours, as `learner counterfactual` reads it")
    table(("T0, n", "epsilon", "not private", "output, published", private, *ours), rows)


def _details(name: str) -> Any:
    return read(name)["details"]


def _rounded(value: float) -> str:
    """Three digits of a large number, one decimal of a small one."""
    if value < 10:
        return f"{value:.1f}"
    return f"{value:.0f}" if value < 100 else f"{float(f'{value:.3g}'):,.0f}"
