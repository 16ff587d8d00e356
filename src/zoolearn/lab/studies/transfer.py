"""How useful one task is to learn another: transfer exponents between the tasks of a benchmark (`exponent.py`).

The hypotheses on task i are the features of nets trained on it with ever more samples per class. Tasks have labels of
their own, so the risk of such features on a task is the test error of a linear head fitted to the task's training data by
ridge regression: for i and j alike, never the net's own head. A part of the study is one source task with one seed: its
nets, and their risks on all tasks.
"""

import shutil
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from statistics import fmean

import torch
import torch.nn.functional as F
from torch import Tensor

from zoolearn.data.stream import Benchmark
from zoolearn.data.task import Task
from zoolearn.errors import StoreError
from zoolearn.files import Json, load_json, save_json
from zoolearn.lab.figures import Figure
from zoolearn.lab.studies.exponent import estimate_noise, exponent
from zoolearn.lab.studies.setup import Setup
from zoolearn.nets.backbones import BACKBONES
from zoolearn.nets.net import Net
from zoolearn.runs.store import check_unseen
from zoolearn.seeds import derive
from zoolearn.training.checkpoints import Checkpoints
from zoolearn.training.fit import Work, iter_fit
from zoolearn.training.recipe import Recipe

SHARES = (0.05, 0.1, 0.2, 0.4, 1.0)  # of the samples per class, from which the hypotheses are learned
FILE = "risks.json"


def part_names(setup: Setup) -> list[str]:
    """The parts of the study: a source task and a seed each."""
    return [_part_name(place, seed) for seed in setup.seeds for place in range(len(setup.tasks))]


def _part_name(place: int, seed: int) -> str:
    return f"source{place}-s{seed}"


def measure(
    setup: Setup, place: int, seed: int, folder: Path, whole: Benchmark, checkpoint_every: int | None = None
) -> Work[dict[str, Json]]:
    """Trains the nets of one source task and measures their features on every task; reads it if it was done before."""
    check_unseen(folder.parent)
    about = {"benchmark": setup.benchmark, "tasks": list(setup.tasks), "source": place, "seed": seed}
    described = {**about, **{name: value for name, value in setup.record().items() if name != "seeds"}}
    if (folder / FILE).exists():
        content = load_json(folder / FILE)
        if {name: value for name, value in content["setup"].items() if name != "seeds"} != described:
            raise StoreError(f"{folder} holds a part with other settings; give another folder (--out)")
        return content
    kept = folder / "checkpoints"
    checkpoints = None if checkpoint_every is None else Checkpoints(kept, checkpoint_every, final=True)
    if setup.samples_per_class is not None:
        whole = whole.per_class(setup.samples_per_class, seed)
    risks: list[list[float]] = []
    for share in SHARES:
        net = yield from _hypothesis(whole[place].subsample(share, seed), setup, seed, checkpoints)
        risks.append([risk(net, task) for task in whole])
    content = {"setup": described, "risks": risks, "test_samples": [len(task.test) for task in whole]}
    save_json(folder / FILE, content)
    shutil.rmtree(kept, ignore_errors=True)
    return content


def _hypothesis(task: Task, setup: Setup, seed: int, checkpoints: Checkpoints | None) -> Work[Net]:
    """A net trained on what is left of the task."""
    recipe = Recipe(epochs=setup.epochs)
    start = derive(seed, "hypothesis", task.name, len(task.train))
    net = Net(BACKBONES[setup.backbone], task.shape, dropout=recipe.dropout, seed=start)
    net.add_head(task.name, len(task.classes))
    yield from iter_fit(net, [task], recipe, seed=start, checkpoints=checkpoints)
    return net.freeze()


@torch.inference_mode()
def risk(net: Net, task: Task, penalty: float = 1e-2) -> float:
    """Test error of the best linear head that ridge regression finds on the features of a task's training data.

    >>> from zoolearn.data.benchmarks import benchmark
    >>> from zoolearn.nets.perceptrons import mlp
    >>> 0 <= risk(Net(mlp, (1, 8, 8)), benchmark("split-digits")[0]) < 0.2
    True
    """
    net.eval()
    train, test = (_features(net, examples.x) for examples in (task.train, task.test))
    mean, deviation = train.mean(dim=0), train.std(dim=0).clamp_min(1e-6)
    train, test = (F.pad((features - mean) / deviation, (0, 1), value=1.0) for features in (train, test))
    wanted = F.one_hot(task.train.y, len(task.classes)).to(torch.float64)
    gram = train.T @ train + penalty * len(train) * torch.eye(train.shape[1], dtype=torch.float64)
    head = torch.linalg.solve(gram, train.T @ wanted)
    return float(((test @ head).argmax(dim=1) != task.test.y).double().mean())


def _features(net: Net, x: Tensor) -> Tensor:
    return torch.cat([net.embed(rows) for rows in torch.split(x, 256)]).to(torch.float64)


def figures(setup: Setup, parts: Mapping[str, Mapping[str, Json]]) -> list[Figure]:
    """The matrix of exponents: row the task that is learned from, column the task that it is to help."""
    count = len(setup.tasks)
    exponents: dict[tuple[int, int], list[float]] = {}
    notes = [[""] * count for _ in range(count)]
    for i, j in permutations(range(count), 2):
        here = [parts[_part_name(i, seed)] for seed in setup.seeds]
        found = [value for part in here if (value := _estimate(part, i, j)) is not None]
        worst, best = (fmean(part["risks"][level][j] for part in here) for level in (0, -1))
        known = f"{len(found)} of {len(here)} seeds tell; error on {setup.tasks[j]} {100 * worst:.1f} %"
        notes[i][j] = f"{known} with features from the least data, {100 * best:.1f} % from the most"
        if found:
            exponents[i, j] = found
    chart = setup.map(setup.tasks, exponents, ("learned from", "to help", "transfer exponent"), notes=notes)
    caption = (
        "Estimate of the exponent rho of section 2.3 for features learned from the row task and used for the "
        f"column task ({setup.conditions}); mean over seeds, and its standard error on hover. Near 1: features that get "
        "better for the row task get as much better for the column task. Larger: they must be very good for the row "
        "task first. Estimated from five nets a task as the largest log E_i / log E_j (c = 1): a lower estimate, "
        "raised by noise. Empty: no net loses on both tasks by more than the test sets can resolve."
    )
    return [setup.figure("transfer", "Transfer exponents between tasks", caption, chart)]


def _estimate(part: Mapping[str, Json], i: int, j: int) -> float | None:
    on_i, on_j = ([row[task] for row in part["risks"]] for task in (i, j))
    floors = (estimate_noise(min(risks), part["test_samples"][task]) for task, risks in ((i, on_i), (j, on_j)))
    return exponent(on_i, on_j, *floors)
