"""Seeds derived from a path such as (run, episode, epoch, purpose), independent of the history of draws."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

import torch


def derive(seed: int, *place: int | str) -> int:
    """A seed for a path below `seed`; equal paths give equal seeds on every machine.

    >>> derive(0, "episode", 3) == derive(0, "episode", 3) != derive(0, "episode", 4)
    True
    """
    text = "/".join([str(seed), *(f"{type(part).__name__}:{part}" for part in place)])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int) -> torch.Generator:
    """A CPU generator that starts at `seed`."""
    return torch.Generator().manual_seed(seed)


@contextmanager
def global_seed(seed: int, device: torch.device) -> Iterator[None]:
    """Seeds torch's global generators inside the block and leaves them outside as they were.

    Weight initialisation and `nn.Dropout` draw from the global generators; nothing else here does.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        seed_generators(seed, device)
        yield


def seed_generators(seed: int, device: torch.device) -> None:
    """Starts torch's global generators at `seed`: the CPU's, and that of the GPU in use.

    `torch.manual_seed` also queues a call with a stack trace for every absent kind of accelerator: a millisecond, and memory
    that is never freed.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
