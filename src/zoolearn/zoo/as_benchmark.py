"""The stored tasks of a zoo as a benchmark, for runs of any method."""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path

from zoolearn.data.stream import Benchmark
from zoolearn.errors import DataError, SettingsError
from zoolearn.files import Json
from zoolearn.runs.own import Own
from zoolearn.zoo.disk.folder import ZooFolder
from zoolearn.zoo.disk.stored import load_parts


@dataclass(frozen=True)
class StoredTasks(Own):
    """A zoo folder as a benchmark: its tasks in the order they were learned, with their stored rows.

    A task that grew comes in parts, as it arrived. A run is resumed only if the rows are the same, by their digest.
    """

    @classmethod
    def at(cls, word: str) -> "StoredTasks":
        """The zoo at a path, relative to the current folder."""
        folder = Path(word).expanduser().absolute()
        return cls(word, folder, "", f"zoo-{folder.name}")

    def benchmark(self, data: Path | None = None, making: Mapping[str, Json] | None = None) -> Benchmark:
        """Its tasks, memory-mapped; raises if no training rows are kept."""
        if making:
            raise SettingsError(
                f"{self.word} is a zoo: its tasks are as they are, and {', '.join(making)} is no option"
            )
        folder = ZooFolder(self.folder)
        index = folder.load(folder.read())
        if not index.tasks:
            raise DataError(f"{self.word} has learned nothing yet; there are no tasks to show to a method")
        parts = [part for entry in index.tasks.values() for part in load_parts(folder, entry)]
        return Benchmark(self.name, tuple(task for _, task in sorted(parts, key=lambda part: part[0])))

    @property
    def takes(self) -> dict[str, Parameter]:
        return {}

    @property
    def benchmark_source(self) -> dict[str, str]:
        """Empty: no code of the caller makes this benchmark."""
        return {}
