"""A cluster of Dask for a block of code."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from joblib import parallel_config


@contextmanager
def on_cluster(address: str, name: str) -> Iterator[None]:
    """A context in which what runs in parallel runs on the cluster at an address, or on a "local" one of processes.

    Errors name the option that holds the address.
    """
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError:
        raise ValueError(f"{name} needs Dask: pip install 'mahala[dask]'") from None
    with ExitStack() as stack:
        # A client that is refused its address leaves Dask's configuration changed.
        stack.enter_context(dask.config.set(scheduler=None))
        cluster = address
        if address == "local":
            cluster = stack.enter_context(LocalCluster(dashboard_address=":0", threads_per_worker=1))
        try:
            stack.enter_context(Client(cluster, timeout=10))
        except (OSError, ValueError) as error:
            raise ValueError(f"{name} is {address!r}, where no scheduler answers: {error}") from None
        stack.enter_context(parallel_config(backend="dask"))
        yield
