"""The software's version and the protocol's."""

__version__ = "0.1.0"


def check_worker(asked: str) -> None:
    """Refuse to work for another version; runs on a worker of a cluster, whose sums could be others.

    Raises:
        RuntimeError: whoever asks has another version than this worker.
    """
    if asked != __version__:
        raise RuntimeError(f"this worker has dprelease {__version__}, and whoever asks has {asked}")
