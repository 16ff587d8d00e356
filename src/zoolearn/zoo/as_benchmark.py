"""The tasks of a zoo shown to any method, as a benchmark."""

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
    """A zoo folder by its path: its tasks in the order that it learned them, with the rows that it stores of each;
    one that grew comes in parts, as it came to the zoo.

    A run knows them again by the digest of these rows, as those of every benchmark: it goes on where they are the same.
    """

    @classmethod
    def at(cls, word: str) -> "StoredTasks":
        """The zoo at a path, from the folder that we are in."""
        folder = Path(word).expanduser().absolute()
        return cls(word, folder, "", f"zoo-{folder.name}")

    def benchmark(self, data: Path | None = None, making: Mapping[str, Json] | None = None) -> Benchmark:
        """Its tasks, memory-mapped; refused where no rows to train on are kept."""
        if making:
            raise SettingsError(
                f"{self.word} is a zoo: its tasks are as they are, and {', '.join(making)} is no option"
            )
        folder = ZooFolder(self.folder)
        index = folder.read()
        if not index.tasks:
            raise DataError(f"{self.word} has learned nothing yet; there are no tasks to show to a method")
        parts = [part for entry in index.tasks.values() for part in load_parts(folder, entry)]
        return Benchmark(self.name, tuple(task for _, task in sorted(parts, key=lambda part: part[0])))

    @property
    def takes(self) -> dict[str, Parameter]:
        return {}

    @property
    def benchmark_source(self) -> dict[str, str]:
        """None: no code of anybody's makes it."""
        return {}
