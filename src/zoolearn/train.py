"""Training: a recipe, the batches it makes of one or several tasks, and `fit`.

`fitting` is the one loop of the library, a generator that reports as it goes; `fit` runs it to the end. Two slots let a
method have its way: `loss(net, batch)` and `adjust(net, batch)`, called between backward and step.
"""

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoolearn.augment import augment
from zoolearn.errors import Diverged, SettingsError, StoreError
from zoolearn.files import load_state, load_tensors, save_tensors
from zoolearn.nets import Net
from zoolearn.seeds import derive, generator, seed_generators
from zoolearn.task import Task

CHUNK_BYTES = 1 << 20  # how much raw data is gathered at once; a chunk is many batches, so its cost is shared


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a net is trained; the defaults are the paper's.

    >>> Recipe(epochs=1).augments
    False
    """

    epochs: int = field(default=200, metadata={"help": "passes over the training data"})
    batch_size: int = field(default=16, metadata={"help": "rows per step"})
    lr: float = field(default=0.01, metadata={"help": "learning rate at the first step"})
    schedule: Literal["cosine", "constant"] = field(
        default="cosine", metadata={"help": "cosine: annealed at every step, to 0 at the end"}
    )
    momentum: float = field(default=0.9, metadata={"help": "SGD momentum; 0 is plain SGD"})
    nesterov: bool = field(default=True, metadata={"help": "Nesterov's form of momentum"})
    weight_decay: float = field(default=1e-5, metadata={"help": "pull of all weights towards 0"})
    dropout: float = field(default=0.2, metadata={"help": "share of units dropped, by backbones that drop units"})
    augment: Literal["auto", "yes", "no"] = field(
        default="auto", metadata={"help": "random crops and flips; auto: only with more than one epoch"}
    )
    pixel_mean: float = field(default=0.5, metadata={"help": "subtracted from pixels in 0..1"})
    pixel_std: float = field(default=0.25, metadata={"help": "pixels are then divided by this"})
    precision: Literal["auto", "float32", "bfloat16", "float16"] = field(
        default="auto", metadata={"help": "arithmetic of the nets; auto: float32 on a CPU, mixed on a GPU"}
    )
    device: Literal["auto", "cpu", "cuda"] = field(default="auto", metadata={"help": "auto: a GPU if there is one"})

    def __post_init__(self) -> None:
        _require("epochs", self.epochs, self.epochs >= 1, "at least 1")
        _require("batch_size", self.batch_size, self.batch_size >= 1, "at least 1")
        _require("lr", self.lr, math.isfinite(self.lr) and self.lr > 0, "above 0")
        _require("momentum", self.momentum, 0 <= self.momentum < 1, "from 0 to below 1")
        _require("weight_decay", self.weight_decay, 0 <= self.weight_decay < math.inf, "0 or more")
        _require("dropout", self.dropout, 0 <= self.dropout < 1, "from 0 to below 1")
        _require("pixel_std", self.pixel_std, 0 < self.pixel_std < math.inf, "above 0")

    @property
    def augments(self) -> bool:
        """Whether training images are varied."""
        return self.augment == "yes" or (self.augment == "auto" and self.epochs > 1)

    @cached_property
    def torch_device(self) -> torch.device:
        """Where nets are trained."""
        if self.device == "cuda" and not _sees_gpu():
            raise SettingsError("device is 'cuda' but torch sees no GPU; use 'auto' or 'cpu'")
        return torch.device("cuda" if self.device != "cpu" and _sees_gpu() else "cpu")

    @cached_property
    def autocast_dtype(self) -> torch.dtype | None:
        """The type of mixed-precision arithmetic, None for plain float32."""
        if self.precision == "auto":
            return torch.float16 if self.torch_device.type == "cuda" else None
        return {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}[self.precision]

    def lr_at(self, step: int, steps: int) -> float:
        """The learning rate of a step (from 0) of `steps` in all."""
        if self.schedule == "constant":
            return self.lr
        return self.lr * 0.5 * (1 + math.cos(math.pi * step / steps))


@cache
def _sees_gpu() -> bool:
    return torch.cuda.is_available()


def _require(name: str, value: object, holds: bool, wanted: str) -> None:
    if not holds:
        raise SettingsError(f"{name} is {value}; it must be {wanted}")


@dataclass(frozen=True)
class Batch:
    """Rows to train on; row i belongs to tasks[rows[i]], its label counts within that task.

    `places` are the rows' numbers through all tasks that are trained on, where that is known.
    """

    x: Tensor
    y: Tensor
    rows: Tensor
    tasks: tuple[str, ...]
    places: Tensor | None = None


@dataclass(frozen=True)
class Progress:
    """How far a training has come: `steps` is the whole of it, `loss` the mean over the current epoch so far."""

    what: str
    step: int
    steps: int
    epoch: int
    epochs: int
    loss: float


Loss = Callable[[Net, Batch], Tensor]
Adjust = Callable[[Net, Batch], None]


def cross_entropy(net: Net, batch: Batch) -> Tensor:
    """Mean over rows of the negative log-likelihood of each row's label under its own task's head."""
    if len(batch.tasks) == 1:
        return F.cross_entropy(net(batch.x, batch.tasks[0]), batch.y)
    logits, first = net.mixed(batch.x, batch.tasks, batch.rows)
    return F.cross_entropy(logits, batch.y + first)


@dataclass(frozen=True)
class Checkpoints:
    """Where unfinished trainings are kept, and every how many epochs; each is found again by its seed.

    With `final`, a training is also kept when it is done, for someone else to take up.
    """

    folder: Path
    every: int
    final: bool = False

    def due(self, epoch: int, epochs: int) -> bool:
        """Whether a training is saved after so many of its epochs."""
        return epoch % self.every == 0 or (self.final and epoch == epochs)

    def path(self, seed: int) -> Path:
        """The file of the training that started from this seed."""
        return self.folder / f"{seed:016x}.safetensors"


def fit(net: Net, tasks: Sequence[Task], recipe: Recipe, *, seed: int, **slots: Any) -> float:
    """Trains a net on the mixture of some tasks; returns the mean loss of the last epoch.

    >>> from zoolearn.benchmarks import benchmark
    >>> from zoolearn.nets import mlp
    >>> task = benchmark("split-digits")[0]
    >>> net = Net(mlp, task.shape)
    >>> net.add_head(task.name, len(task.classes))
    >>> fit(net, [task], Recipe(epochs=3), seed=0) < 0.3
    True
    """
    return float(drain(fitting(net, tasks, recipe, seed=seed, **slots)))


def drain(work: Generator[Progress, None, Any]) -> Any:
    """Runs a generator to its end and gives what it returns."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def fitting(
    net: Net,
    tasks: Sequence[Task],
    recipe: Recipe,
    *,
    seed: int,
    loss: Loss = cross_entropy,
    adjust: Adjust | None = None,
    balanced: bool = False,
    heads: Sequence[str] | None = None,
    checkpoints: Checkpoints | None = None,
    carried: Mapping[str, Tensor] | None = None,
    restart_momentum: bool = False,
) -> Generator[Progress, None, float]:
    """`fit`, step by step. With `balanced`, half of every batch is of the first task, half of the others together.

    `heads` names the tasks whose heads may move, by default the tasks that are trained on. With `checkpoints`, the
    training is saved at the end of every few epochs and taken up there if it was cut short; `carried` are the tensors
    that the slots change in place from step to step, saved and taken up with it. With `restart_momentum`, every epoch
    begins with the optimiser's momentum at zero.
    """
    device = recipe.torch_device
    net.to(device)
    _refuse_single_rows(net, recipe)
    movable = net.trainable(heads if heads is not None else [task.name for task in tasks])
    training = _Training(net, movable, recipe, seed, loss, adjust, carried or {})
    first_epoch = training.resume(checkpoints) if checkpoints else 0
    order = _balanced_order if balanced and len(tasks) > 1 else _shuffled_order
    what = tasks[0].name
    random_state = _RandomState(device)
    for epoch in range(first_epoch, recipe.epochs):
        net.train()
        if restart_momentum:
            training.restart_momentum()
        random_state.start(derive(seed, "dropout", epoch))
        places = order(tasks, derive(seed, "order", epoch))
        sizes = _batch_sizes(len(places), recipe.batch_size)
        steps = len(sizes)
        losses = torch.empty(0, device=device)  # of the epoch's steps so far
        for chunk in _chunks(tasks, places, sizes, recipe, derive(seed, "augment", epoch)):
            step = epoch * steps + len(losses)
            with random_state:
                latest = [
                    training.step(batch, recipe.lr_at(step + number, recipe.epochs * steps))
                    for number, batch in enumerate(chunk)
                ]
            losses = torch.cat([losses, torch.stack(latest)])
            training.mean_loss = _mean_or_diverged(losses, what, epoch)
            step = epoch * steps + len(losses)
            yield Progress(what, step, recipe.epochs * steps, epoch + 1, recipe.epochs, training.mean_loss)
        training.refuse_broken_weights(what, epoch, steps)
        if checkpoints and checkpoints.due(epoch + 1, recipe.epochs):
            training.save(checkpoints, epoch + 1)
    return training.mean_loss


class _Training:
    """A net with its optimiser: one step, and all of it saved and resumed."""

    def __init__(
        self,
        net: Net,
        parameters: list[nn.Parameter],
        recipe: Recipe,
        seed: int,
        loss: Loss,
        adjust: Adjust | None,
        carried: Mapping[str, Tensor],
    ) -> None:
        self.net, self.parameters, self.recipe, self.seed = net, parameters, recipe, seed
        self.loss, self.adjust, self.carried = loss, adjust, carried
        self.device = recipe.torch_device
        self.autocast = recipe.autocast_dtype
        self.optimizer = torch.optim.SGD(
            self.parameters,
            lr=recipe.lr,
            momentum=recipe.momentum,
            nesterov=recipe.nesterov and recipe.momentum > 0,
            weight_decay=recipe.weight_decay,
            fused=True,
        )
        if recipe.momentum:
            for parameter in parameters:  # a head may get its first gradient late, and all must have a moment or none
                self.optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        scaled = self.autocast == torch.float16 and self.device.type == "cuda"
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=scaled)
        self.mean_loss = math.nan

    def step(self, batch: Batch, lr: float) -> Tensor:
        self.optimizer.param_groups[0]["lr"] = lr
        for parameter in self.parameters:
            parameter.grad = None
        if self.autocast is None:
            value = self.loss(self.net, batch)
        else:
            with torch.autocast(self.device.type, self.autocast):
                value = self.loss(self.net, batch)
        self.scaler.scale(value).backward()  # type: ignore[no-untyped-call]
        if self.adjust is not None:
            self.scaler.unscale_(self.optimizer)
            self.adjust(self.net, batch)
        if self.scaler.is_enabled():
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        return value.detach()

    def refuse_broken_weights(self, what: str, epoch: int, steps: int) -> None:
        """A last step that explodes shows in no loss any more."""
        norms = torch.stack(
            torch._foreach_norm([part.detach() for part in self.parameters])
        )  # one pass; infinite also where squares overflow
        if not bool(torch.isfinite(norms).all()) and not all(bool(part.isfinite().all()) for part in self.parameters):
            raise _diverged("weights are not finite", what, epoch, steps - 1)

    def restart_momentum(self) -> None:
        for state in self.optimizer.state.values():
            state["momentum_buffer"].zero_()

    def save(self, checkpoints: Checkpoints, epochs: int) -> None:
        tensors = {f"net.{name}": tensor for name, tensor in self.net.state_dict().items()}
        for place, parameter in enumerate(self.parameters):
            moment = self.optimizer.state[parameter].get("momentum_buffer")
            if moment is not None:
                tensors[f"momentum.{place}"] = moment
        tensors |= {f"carried.{name}": tensor for name, tensor in self.carried.items()}
        info = {"seed": self.seed, "epochs": epochs, "loss": self.mean_loss, "scaler": self.scaler.state_dict()}
        save_tensors(checkpoints.path(self.seed), tensors, info)

    def resume(self, checkpoints: Checkpoints) -> int:
        """Takes up a saved training; returns the epochs that are done (0 if there is none)."""
        path = checkpoints.path(self.seed)
        if not path.exists():
            return 0
        try:
            tensors, info = load_tensors(path)
        except StoreError as error:
            raise StoreError(f"{error}, or delete this checkpoint: its training then starts anew") from error
        state = {name.removeprefix("net."): tensor for name, tensor in tensors.items() if name.startswith("net.")}
        load_state(self.net, state, str(path))
        for place, parameter in enumerate(self.parameters):
            if f"momentum.{place}" in tensors:
                moment = torch.empty_like(parameter).copy_(tensors[f"momentum.{place}"])
                self.optimizer.state[parameter]["momentum_buffer"] = moment
        for name, tensor in self.carried.items():
            tensor.copy_(tensors[f"carried.{name}"])
        self.scaler.load_state_dict(info["scaler"])
        self.mean_loss = float(info["loss"])
        return int(info["epochs"])


class _RandomState:
    """Torch's global random state of one training, in force only inside `with`: callers keep theirs."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.mine: tuple[Tensor, Tensor | None] | None = None

    def start(self, seed: int) -> None:
        outside = self._get()
        seed_generators(seed, self.device)
        self.mine = self._get()
        self._set(outside)

    def __enter__(self) -> None:
        self.outside = self._get()
        if self.mine is not None:
            self._set(self.mine)

    def __exit__(self, *_: object) -> None:
        self.mine = self._get()
        self._set(self.outside)

    def _get(self) -> tuple[Tensor, Tensor | None]:
        gpu = torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None
        return torch.get_rng_state(), gpu

    def _set(self, state: tuple[Tensor, Tensor | None]) -> None:
        torch.set_rng_state(state[0])
        if state[1] is not None:
            torch.cuda.set_rng_state(state[1], self.device)


def _shuffled_order(tasks: Sequence[Task], seed: int) -> Tensor:
    """Every row of every task once, in random order; rows are numbered through all tasks."""
    return torch.randperm(sum(len(task.train) for task in tasks), generator=generator(seed))


def _balanced_order(tasks: Sequence[Task], seed: int) -> Tensor:
    """Rows of the first task (each once) and of the others (as often as needed), alternating."""
    rng = generator(seed)
    new = len(tasks[0].train)
    others = sum(len(task.train) for task in tasks[1:])
    rounds = -(-new // others)
    past = torch.cat([torch.randperm(others, generator=rng) for _ in range(rounds)])[:new] + new
    return torch.stack([torch.randperm(new, generator=rng), past], dim=1).reshape(-1)


def steps_per_epoch(rows: int, batch_size: int) -> int:
    """How many batches an epoch over so many rows has."""
    return len(_batch_sizes(rows, batch_size))


def _batch_sizes(rows: int, batch_size: int) -> list[int]:
    """Full batches and the rest; a rest of one row joins the batch before it, since batch-norm cannot take one row.

    >>> _batch_sizes(33, 16), _batch_sizes(34, 16)
    ([16, 17], [16, 16, 2])
    """
    sizes = [batch_size] * (rows // batch_size)
    rest = rows % batch_size
    if rest == 1 and sizes:
        sizes[-1] += 1
    elif rest:
        sizes.append(rest)
    return sizes


def _chunks(
    tasks: Sequence[Task], places: Tensor, sizes: Sequence[int], recipe: Recipe, seed: int
) -> Iterator[Iterator[Batch]]:
    """The epoch's batches in groups that are gathered, moved and augmented at once."""
    row_bytes = tasks[0].train.x[0].numel() * tasks[0].train.x.element_size()
    per_chunk = max(1, CHUNK_BYTES // (row_bytes * recipe.batch_size))
    names = tuple(task.name for task in tasks)
    ends = torch.tensor([len(task.train) for task in tasks]).cumsum(0)
    rng = generator(seed)
    done = 0
    for first in range(0, len(sizes), per_chunk):
        chunk_sizes = list(sizes[first : first + per_chunk])
        chosen = places[done : done + sum(chunk_sizes)]
        done += len(chosen)
        x, y, rows = (_to_device(part, recipe.torch_device) for part in _gather(tasks, ends, chosen))
        if recipe.augments:
            x = _augmented(x, rows, tasks, rng)
        parts = zip(*(torch.split(part, chunk_sizes) for part in (x, y, rows, chosen)), strict=True)
        yield (Batch(inputs, labels, owners, names, places) for inputs, labels, owners, places in parts)


def _augmented(x: Tensor, rows: Tensor, tasks: Sequence[Task], rng: torch.Generator) -> Tensor:
    """Each task's images varied as that task allows; in most mixtures all allow the same."""
    if len({task.augment for task in tasks}) == 1:
        return augment(x, tasks[0].augment, rng) if tasks[0].augment else x
    for kinds in dict.fromkeys(task.augment for task in tasks if task.augment):
        numbers = [number for number, task in enumerate(tasks) if task.augment == kinds]
        here = torch.isin(rows, torch.tensor(numbers, device=rows.device))
        x[here] = augment(x[here], kinds, rng)
    return x


def _gather(tasks: Sequence[Task], ends: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if len(tasks) == 1:
        train = tasks[0].train
        return train.x.index_select(0, places), train.y.index_select(0, places), torch.zeros_like(places)
    rows = torch.searchsorted(ends, places, right=True)
    first = tasks[0].train
    x = first.x.new_empty((len(places), *first.shape))
    y = torch.empty_like(places)
    for number, task in enumerate(tasks):
        here = (rows == number).nonzero()[:, 0]
        local = places[here] - (int(ends[number]) - len(task.train))
        x.index_copy_(0, here, task.train.x.index_select(0, local))
        y.index_copy_(0, here, task.train.y.index_select(0, local))
    return x, y, rows


def _to_device(tensor: Tensor, device: torch.device) -> Tensor:
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor


def _mean_or_diverged(losses: Tensor, what: str, epoch: int) -> float:
    finite = torch.isfinite(losses)
    if not bool(finite.all()):
        step = int((~finite).nonzero()[0, 0])
        raise _diverged(f"the loss is {float(losses[step])}", what, epoch, step)
    return float(losses.double().mean())


def _diverged(how: str, what: str, epoch: int, step: int) -> Diverged:
    return Diverged(
        f"training on task {what!r} diverged: {how} at step {step + 1} of epoch {epoch + 1}; what was saved before is "
        "kept. Try a smaller learning rate (--lr)"
    )


def _refuse_single_rows(net: Net, recipe: Recipe) -> None:
    if recipe.batch_size == 1 and any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in net.modules()):
        raise SettingsError(
            "batch_size is 1 but the backbone has batch-norm, which needs 2 rows or more; use mlp or more rows"
        )


@torch.inference_mode()
def probabilities(
    net: Net, x: Tensor, task: str, recipe: Recipe, batch_size: int | None = None, *, mirror: bool = False
) -> Tensor:
    """The class probabilities that a net gives to raw inputs, in evaluation mode, on the CPU.

    With `mirror`, the mean of those for a picture and for its mirror image.
    """
    if batch_size is None:
        batch_size = _rows_at_once(net, recipe)
    if net.head(task).weight.device != recipe.torch_device:
        net.to(recipe.torch_device)
    if not net.frozen:  # a part of the net may still be in training mode
        net.eval()
    if mirror and x.ndim == 4:
        parts = [
            (_answers(net, rows, task, recipe), _answers(net, rows.flip(-1), task, recipe))
            for rows in torch.split(x, batch_size)
        ]
        return torch.cat([(answer + mirrored) / 2 for answer, mirrored in parts])
    if len(x) <= batch_size:
        return _answers(net, x, task, recipe)
    return torch.cat([_answers(net, rows, task, recipe) for rows in torch.split(x, batch_size)])


def _rows_at_once(net: Net, recipe: Recipe) -> int:
    """On a CPU, the features of 64 images still fit into its cache: a third faster than 256."""
    return 64 if net.convolves and recipe.torch_device.type == "cpu" else 256


def _answers(net: Net, x: Tensor, task: str, recipe: Recipe) -> Tensor:
    device, dtype = recipe.torch_device, recipe.autocast_dtype
    if device.type == "cpu" and dtype is None:
        return torch.softmax(net(x, task), dim=1)
    with torch.autocast(device.type, dtype, enabled=dtype is not None):
        logits = net(_to_device(x, device), task)
    return torch.softmax(logits.float(), dim=1).cpu()


@torch.inference_mode()
def feature_rows(net: Net, x: Tensor, recipe: Recipe) -> Tensor:
    """The features that a net's backbone makes of raw inputs, in evaluation mode, on the CPU."""
    device, dtype = recipe.torch_device, recipe.autocast_dtype
    net.to(device)
    if not net.frozen:
        net.eval()
    parts = []
    for rows in torch.split(x, _rows_at_once(net, recipe)):
        with torch.autocast(device.type, dtype, enabled=dtype is not None):
            parts.append(net.embed(_to_device(rows, device)).float().cpu())
    return torch.cat(parts)
