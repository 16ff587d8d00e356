"""Page faults and processor time of a training with large pictures, as glibc comes and with freed memory kept.

Usage: OMP_NUM_THREADS=1 python benchmarks/kept_memory.py
"""

import resource
import subprocess
import sys
import time

import numpy as np
import torch

from zoolearn import Examples, Net, Recipe, Task, fit, small_conv
from zoolearn.cores import keep_freed_memory


def train() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    splits = [Examples.of(rng.integers(0, 256, (n, 3, 84, 84), dtype=np.uint8), np.arange(n) % 5) for n in (480, 10)]
    task = Task("noise", *splits, augment=("crop", "flip"))
    net = Net(small_conv, task.shape, dropout=0.2)
    net.add_head(task.name, 5)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.process_time()
    loss = fit(net, [task], Recipe(epochs=2, device="cpu"), seed=0)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        f"{used.ru_minflt - before:,} faults, {time.process_time() - started:.1f} s, loss {loss.hex()}, peak {used.ru_maxrss >> 10} MB"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        if sys.argv[1] == "kept":
            keep_freed_memory()
        train()
    else:
        for how in ("given back", "kept"):
            print(how, end=": ", flush=True)
            subprocess.run([sys.executable, __file__, how], check=True)
