"""What it costs to bring a sample to the net: gathering, augmenting, scaling; and the image library per sample."""

import numpy as np
import torch
from PIL import Image, ImageOps

from benchmarks.bare import net_for
from benchmarks.streams import task
from benchmarks.tables import Table
from benchmarks.timing import stopwatch, take_turns
from zoolearn.data.augment import augment

ROWS = 640  # one chunk of 32x32 colour images, about
BATCH = 16


def measure(*, quick: bool) -> list[Table]:
    """Microseconds per sample of each stage, for 32x32 colour images in batches of 16."""
    data = task("task", (3, 32, 32), 2500, 16)
    net = net_for("small-conv", data.shape)
    rng = torch.Generator().manual_seed(0)
    rows = torch.randperm(2500, generator=rng)[:ROWS]
    x = data.train.x[rows]

    def slices() -> float:
        with stopwatch() as watch:
            for part in data.train.x[:ROWS].split(BATCH):
                part.clone()
        return watch.seconds

    def gathered() -> float:
        with stopwatch() as watch:
            data.train.x.index_select(0, rows)
        return watch.seconds

    def augmented() -> float:
        with stopwatch() as watch:
            augment(x, ("crop", "flip"), rng)
        return watch.seconds

    def scaled() -> float:
        with stopwatch() as watch:
            for part in x.split(BATCH):
                net.normalize(part)
        return watch.seconds

    def image_library() -> float:
        images = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in x]
        offsets = torch.randint(0, 9, (ROWS, 2), generator=rng).tolist()
        with stopwatch() as watch:
            for image, (left, top) in zip(images, offsets, strict=True):
                padded = ImageOps.expand(image, 4).crop((left, top, left + 32, top + 32))
                mirrored = ImageOps.mirror(padded)
                torch.from_numpy(np.array(mirrored)).permute(2, 0, 1).float().div_(255).sub_(0.5).div_(0.25)
        return watch.seconds

    contenders = {
        "slice of a tensor": slices,
        "gather (a chunk at once)": gathered,
        "crop and flip (a chunk at once)": augmented,
        "to floats, channels last (a batch)": scaled,
        "image library, sample by sample": image_library,
    }
    seconds = take_turns(contenders, 3 if quick else 21)
    table = Table("microseconds per sample, 32x32 colour", ["stage", "best", "median"])
    for name, values in seconds.items():
        table.rows.append([name, 1e6 * min(values) / ROWS, 1e6 * sorted(values)[len(values) // 2] / ROWS])
    return [table]
