"""A benchmark with pre-trained features in place of pictures."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Task
from zoolearn.features.cache import FeatureCache
from zoolearn.features.extractor import Extractor

FEATURES = "features"  # of a benchmark's record


def open_extractor_file(path: Path) -> Extractor:
    """The extractor in a file, checked and tried once for each process and state of the file."""
    return _open_cached(path, path.stat().st_mtime_ns if path.exists() else 0)


@lru_cache(maxsize=2)
def _open_cached(path: Path, changed: int) -> Extractor:
    return Extractor.of_file(path)


def extractor_id(extractor: Extractor) -> str:
    """The name of an extractor in records: the beginning of its checksum."""
    return extractor.sha256[:16]


def extract_benchmark(
    benchmark: Benchmark, extractor: Extractor, data: Path | str | None = None, *, steps: bool = False
) -> Benchmark:
    """The benchmark with features in place of pictures; computed once for each picture, and cached below the data root.

    There is no augmentation then. The `backbone` is `identity` (a linear head on the features) or `mlp`. With
    `steps`, rows are int16 as they are stored: heads from statistics (`grow=by_statistics`) take those.
    """
    cache = FeatureCache(extractor, data)
    tasks = tuple(_extract_task(task, cache, steps=steps) for task in benchmark)
    return replace(benchmark, tasks=tasks, options={**benchmark.options, FEATURES: extractor_id(extractor)})


def _extract_task(task: Task, cache: FeatureCache, *, steps: bool) -> Task:
    train, test = (cache.examples(part, task.name, steps=steps) for part in (task.train, task.test))
    return replace(task, train=train, test=test, augment=())
