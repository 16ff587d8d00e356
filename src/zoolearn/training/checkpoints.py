"""Checkpoints of trainings, for exact resume: each training is saved in one file, every few epochs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from torch import Tensor

from zoolearn.errors import StoreError
from zoolearn.files import Json, load_state, load_tensors, save_tensors
from zoolearn.nets.net import passed
from zoolearn.training.clock import Spent, clock
from zoolearn.training.fit import Training


class Carried:
    """State beside the net and the optimizer that a training changes, saved in its checkpoints; here none."""

    def begin(self) -> None:
        """A training begins."""

    def save(self, tensors: dict[str, Tensor]) -> Json:
        """What has changed since `begin`, as plain data; tensors are put into `tensors`."""

    def load(self, info: Json, tensors: dict[str, Tensor]) -> None:
        """Loads what `save` gave."""


@dataclass(frozen=True)
class Checkpoints:
    """Saves trainings in a folder, named by their seeds, every `every` epochs, at most `most` times.

    With `final`, also when a training is done, for another process to load.
    """

    folder: Path
    every: int
    final: bool = False
    carried: Carried = field(default_factory=Carried)
    most: int | None = None
    began: dict[int, Spent] = field(default_factory=dict)  # when each training did, by its seed

    def due(self, epoch: int, epochs: int) -> bool:
        every = max(self.every, epochs // self.most) if self.most else self.every
        return epoch % every == 0 or (self.final and epoch == epochs)

    def path(self, seed: int) -> Path:
        return self.folder / f"{seed:016x}.safetensors"

    def save(self, training: Training, epochs: int) -> None:
        tensors = {f"net.{name}": tensor for name, tensor in training.net.state_dict().items()}
        tensors |= {f"optimizer.{name}": tensor for name, tensor in training.optimizer.tensors().items()}
        carried: dict[str, Tensor] = {}
        info = {
            "seed": training.seed,
            "epochs": epochs,
            "loss": training.mean_loss,
            "scaler": training.scaler.state_dict(),
            "rows": training.rows,
            "spent": asdict(clock.now() - self.began[training.seed]),
            "carried": self.carried.save(carried),
        }
        tensors |= {f"carried.{name}": tensor for name, tensor in carried.items()}
        save_tensors(self.path(training.seed), tensors, info)

    def resume(self, training: Training) -> int:
        path = self.path(training.seed)
        self.began[training.seed] = clock.now()
        self.carried.begin()
        if not path.exists():
            return 0
        try:
            tensors, info = load_tensors(path)
        except StoreError as error:
            raise StoreError(f"{error}, or delete this checkpoint: its training then starts again") from error
        load_state(training.net, _below("net.", tensors), str(path))
        training.optimizer.load(_below("optimizer.", tensors))
        carried = {name: tensor.to(training.device) for name, tensor in _below("carried.", tensors).items()}
        self.carried.load(info["carried"], carried)
        training.scaler.load_state_dict(info["scaler"])
        training.mean_loss = float(info["loss"])
        training.rows = Counter(info["rows"])
        passed.rows += training.rows
        clock.put_forward(Spent(**info["spent"]))
        return int(info["epochs"])


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
