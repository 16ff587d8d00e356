"""Training: `iter_fit` is the only training loop of the library, a generator of `Progress`.

Methods customise it by three slots: `loss(net, batch)`, `adjust(net, batch)`, called between backward and step, and
`optimizer`.
"""

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from zoolearn.data.task import Task
from zoolearn.errors import Diverged, SettingsError
from zoolearn.names import Named
from zoolearn.nets.net import Net, passed
from zoolearn.seeds import derive, seed_generators
from zoolearn.training.batches import Batch, balanced_order, batch_sizes, iter_chunks, shuffled_order
from zoolearn.training.recipe import Recipe
from zoolearn.training.sgd import Sgd


@dataclass(frozen=True)
class Progress:
    """Progress of a training: `step` of `steps` in all; `loss` is the mean over the current epoch so far."""

    what: str
    step: int
    steps: int
    epoch: int
    epochs: int
    loss: float


End = TypeVar("End")
Work = Generator[Progress, None, End]  # a long computation: it yields progress and returns its result
Loss = Callable[[Net, Batch], Tensor]
Adjust = Callable[[Net, Batch], None]
Listener = Callable[[Net, Sequence[Task], Batch, Tensor, int], None]  # (net, tasks, batch, its loss, steps an epoch)
MakeOptimizer = Callable[[Sequence[nn.Parameter], Recipe], Sgd]  # a subclass of Sgd, or a function that makes one
OPTIMIZERS = Named[MakeOptimizer](
    {
        "sgd": "training.sgd.Sgd",
        "adam": "training.adam.Adam",
        "adamw": "training.adam.AdamW",
        "own": "training.own.TorchOptimizer",
    }
)


def cross_entropy(net: Net, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Mean over rows of the negative log-likelihood of each row's label under its own task's head.

    With `smoothing`, this share of a label is spread evenly over all classes of its task.
    """
    if len(batch.tasks) == 1:
        return F.cross_entropy(net(batch.x, batch.tasks[0]), batch.y, label_smoothing=smoothing)
    logits, first = net.forward_mixed(batch.x, batch.tasks, batch.task_index)
    missed = F.cross_entropy(logits, batch.y + first)
    return missed if not smoothing else (1 - smoothing) * missed + smoothing * _spread(logits)


def _spread(logits: Tensor) -> Tensor:
    """Mean over rows of the negative log-likelihood, averaged over the classes of each row's own task."""
    is_open = logits.isfinite()
    logs = F.log_softmax(logits, dim=1).where(is_open, 0.0)
    return -(logs.sum(dim=1) / is_open.sum(dim=1)).mean()


class Checkpointing(Protocol):
    """Saves and resumes unfinished trainings (`training/checkpoints.py`)."""

    def due(self, epoch: int, epochs: int) -> bool:
        """Whether a training is saved after this epoch."""

    def save(self, training: "Training", epochs: int) -> None:
        """Saves a training after this many epochs."""

    def resume(self, training: "Training") -> int:
        """Loads the saved state of a training, if any; returns the number of epochs done."""


def run_to_end(work: Generator[object, None, End]) -> End:
    """Exhausts a generator and returns its return value."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return cast(End, end.value)


def iter_fit(
    net: Net,
    tasks: Sequence[Task],
    recipe: Recipe,
    *,
    seed: int,
    loss: Loss | None = None,
    adjust: Adjust | None = None,
    optimizer: MakeOptimizer | None = None,
    balanced: bool = False,
    heads: Sequence[str] | None = None,
    checkpoints: Checkpointing | None = None,
    listener: Listener | None = None,
) -> Work[float]:
    """Trains a net on a mixture of tasks, as a generator of progress; returns the mean loss of the last epoch.

    With `balanced`, half of every batch is from the first task, half from the others together. `loss` defaults to the
    cross-entropy with the recipe's label smoothing, `optimizer` (a function of trainable parameters and recipe) to the
    one that the recipe names, `heads` (tasks whose heads are trained) to those of `tasks`. With `checkpoints`, the
    training is saved every few epochs and resumed exactly. A `listener` is called after every step and must not change
    anything. `training.at_once.fit` runs it to its end.
    """
    device = recipe.torch_device
    net.to(device)
    check_single_rows(net, "batch_size", recipe.batch_size)
    movable = net.trainable(heads if heads is not None else [task.name for task in tasks])
    loss = loss or partial(cross_entropy, smoothing=recipe.label_smoothing)
    training = Training(
        net, movable, recipe, seed, loss, adjust, (optimizer or OPTIMIZERS[recipe.optimizer])(movable, recipe)
    )
    first_epoch = checkpoints.resume(training) if checkpoints else 0
    order = balanced_order if balanced and len(tasks) > 1 else shuffled_order
    what = tasks[0].name
    random_state = _RandomState(device)
    for epoch in range(first_epoch, recipe.epochs):
        training.optimizer.begin_epoch()
        random_state.start(derive(seed, "dropout", epoch))
        places = order(tasks, derive(seed, "order", epoch))
        sizes = batch_sizes(len(places), recipe.batch_size)
        steps = len(sizes)
        losses = torch.empty(0, device=device)  # of the epoch's steps so far
        for chunk in iter_chunks(tasks, places, sizes, recipe, derive(seed, "augment", epoch), epoch):
            step = epoch * steps + len(losses)
            net.train()  # the caller may have evaluated it since the last yield
            before = passed.rows.copy()
            with random_state.activate():
                latest = list[Tensor]()
                for number, batch in enumerate(chunk):
                    latest.append(training.step(batch, recipe.lr_at(step + number, recipe.epochs * steps)))
                    if listener is not None:
                        listener(net, tasks, batch, latest[-1], steps)
            training.rows += passed.rows - before
            losses = torch.cat([losses, torch.stack(latest)])
            training.mean_loss = _mean_or_diverged(losses, what, epoch)
            step = epoch * steps + len(losses)
            yield Progress(what, step, recipe.epochs * steps, epoch + 1, recipe.epochs, training.mean_loss)
        training.check_weights(what, epoch, steps)
        if epoch + 1 == recipe.epochs:
            with random_state.activate():
                training.check_answers(batch, what, steps)
        if checkpoints and checkpoints.due(epoch + 1, recipe.epochs):
            checkpoints.save(training, epoch + 1)
    return training.mean_loss


@dataclass(eq=False)
class Training:
    """A net with its optimizer, loss and gradient scaler."""

    net: Net
    parameters: list[nn.Parameter]
    recipe: Recipe
    seed: int
    loss: Loss
    adjust: Adjust | None
    optimizer: Sgd
    mean_loss: float = math.nan

    def __post_init__(self) -> None:
        self.device, self.autocast = self.recipe.torch_device, self.recipe.autocast_dtype
        scaled = self.autocast == torch.float16 and self.device.type == "cuda"
        self.scaler = GradScaler(self.device.type, enabled=scaled)
        self.rows = Counter[str]()  # passed through nets so far, before a resume too

    def step(self, batch: Batch, lr: float) -> Tensor:
        """One optimizer step on a batch; returns the loss."""
        self.optimizer.lr = lr
        for parameter in self.parameters:
            parameter.grad = None
        if self.autocast is None:
            value = self.loss(self.net, batch)
        else:
            with torch.autocast(self.device.type, self.autocast):
                value = self.loss(self.net, batch)
        self.scaler.scale(value).backward()  # type: ignore[no-untyped-call]
        if self.adjust is not None:
            self.scaler.unscale_(cast(Optimizer, self.optimizer))
            self.adjust(self.net, batch)
        if self.scaler.is_enabled():
            self.scaler.step(cast(Optimizer, self.optimizer))
            self.scaler.update()
        else:
            self.optimizer.step()
        return value.detach()

    def check_weights(self, what: str, epoch: int, steps: int) -> None:
        """Raises if weights are not finite: a last step that explodes shows in no later loss."""
        norms = torch.stack(torch._foreach_norm([part.detach() for part in self.parameters]))
        if not bool(torch.isfinite(norms).all()) and not all(bool(part.isfinite().all()) for part in self.parameters):
            raise _make_error("weights are not finite", what, epoch, steps - 1)

    def check_answers(self, batch: Batch, what: str, steps: int) -> None:
        """Raises if the last batch has logits that are not finite: finite weights may still be too large."""
        before = passed.rows.copy()
        self.net.eval()
        with torch.no_grad(), torch.autocast(self.device.type, self.autocast, enabled=self.autocast is not None):
            for place in set(batch.task_index.tolist()):
                if not bool(self.net(batch.x[batch.task_index == place], batch.tasks[place]).isfinite().all()):
                    raise _make_error("answers are not finite", what, self.recipe.epochs - 1, steps - 1)
        passed.rows = before  # this check is no cost of the method


class _RandomState:
    """The global random state of one training, active only inside `activate`, so that callers keep theirs."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.gpus = [device] if device.type == "cuda" else []
        self.states: list[Tensor] = []

    def start(self, seed: int) -> None:
        self.states = []
        with self.activate():
            seed_generators(seed, self.device)

    @contextmanager
    def activate(self) -> Iterator[None]:
        with torch.random.fork_rng(self.gpus):
            for state, gpu in zip(self.states, [None, *self.gpus], strict=False):
                torch.set_rng_state(state) if gpu is None else torch.cuda.set_rng_state(state, gpu)
            yield
            self.states = [torch.get_rng_state(), *map(torch.cuda.get_rng_state, self.gpus)]


def _mean_or_diverged(losses: Tensor, what: str, epoch: int) -> float:
    finite = torch.isfinite(losses)
    if not bool(finite.all()):
        step = int((~finite).nonzero()[0, 0])
        raise _make_error(f"the loss is {float(losses[step])}", what, epoch, step)
    return float(losses.double().mean())


def _make_error(how: str, what: str, epoch: int, step: int) -> Diverged:
    return Diverged(
        f"training on task {what!r} diverged: {how} at step {step + 1} of epoch {epoch + 1}; what was saved before is "
        "kept. Try a smaller learning rate (--lr)"
    )


def check_single_rows(net: Net, setting: str, rows: int) -> None:
    """Raises if a setting would give single rows to a net with batch-norm, in its backbone or added by a method."""
    if rows == 1 and any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in net.modules()):
        raise SettingsError(f"{setting} is 1 but the net has batch-norm, which needs 2 rows or more; use more rows")
