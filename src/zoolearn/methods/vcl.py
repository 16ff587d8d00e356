"""VCL: variational continual learning (Nguyen et al., 2018)."""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoolearn.data.task import Examples, Task
from zoolearn.errors import SettingsError
from zoolearn.files import Json
from zoolearn.methods.bases.single_net import SingleNet
from zoolearn.methods.learner import Episode, recipe_field
from zoolearn.methods.parts.gaussian import (
    Distribution,
    GaussianLinear,
    common_noise,
    divergence,
    gaussian_layers,
    make_gaussian,
    noise_for_rows,
    sampled_logits,
)
from zoolearn.methods.parts.memory import Memory
from zoolearn.methods.state import derived, saved
from zoolearn.nets.backbones import BACKBONES, Backbone
from zoolearn.nets.net import Net
from zoolearn.nets.perceptrons import mlp
from zoolearn.seeds import derive, generator
from zoolearn.settings import setting
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Loss, Work, cross_entropy, run_to_end
from zoolearn.training.recipe import Recipe

Coreset = Callable[[Tensor, int, int], Tensor]  # (inputs, size, seed) -> positions


def random_points(x: Tensor, size: int, seed: int) -> Tensor:
    """Positions of a uniform draw."""
    return torch.randperm(len(x), generator=generator(seed))[:size]


def centres(x: Tensor, size: int, seed: int) -> Tensor:
    """Positions of inputs far apart: the first, then again and again the one farthest from those chosen (greedy k-centre).

    >>> centres(torch.tensor([[0.0], [1.0], [9.0], [5.0]]), size=3, seed=0).tolist()
    [0, 2, 3]
    """
    points = x.reshape(len(x), -1).to(torch.float32)
    chosen = [0]
    distance = torch.full((len(points),), math.inf)
    while len(chosen) < size:
        distance = torch.minimum(distance, (points - points[chosen[-1]]).square().sum(dim=1))
        chosen.append(int(distance.argmax()))
    return torch.tensor(chosen[:size])


CORESETS: dict[str, Coreset] = {"random": random_points, "k-centre": centres}


@dataclass(kw_only=True, eq=False)
class Vcl(SingleNet):
    """Keeps a Gaussian over every weight; what is believed after one task is the prior of the next.

    "Variational Continual Learning" (Nguyen et al., 2018), equation 4 and algorithm 1. For a task with N examples the
    loss is the mean over rows of -E_q[log p(y | x, weights)], with `train_samples` draws, plus KL(q || prior) / N: the
    prior of the shared layers is the last posterior, that of a new head N(0, `prior_variance`). Before training,
    `coreset_size` examples are put aside; before a task is asked about, a copy of the net learns its coreset (all of
    them, where tasks share a head) with the posterior as prior, answers, and is not kept. A question is answered with
    the mean of class probabilities over `answer_samples` draws, always the same for the same learner.

    The authors train by Adam (`optimizer="adam"`, with a rate near 1e-3). By default we take SGD at 0.03: with few rows
    Adam comes so far that the divergence, an Nth of it a row, leaves little of what was learned. Priors take the place of
    weight decay, which is not used; training is in float32.

    `stored_samples` are the coresets; `num_parameters` counts a mean and a variance for every weight. The prior of the next
    task is the posterior, so nothing else is kept; copies that learned a coreset are made from it when needed.

    Where we differ: (1) weights are drawn at the outputs of layers, separately for every row (local reparametrisation), where
    the authors' first code draws weights once per sample and their second shares its noise among rows; for answers, rows
    share it; (2) a coreset is at most half of the task, holds every class, and leaves every class an example to train on
    (a class of one example is in both); (3) means start at the usual random weights, with
    `first_std=0.1` at the authors', a normal distribution cut at twice its deviation, biases too; (4) the recipe's dropout acts
    in training; the authors have none; (5) with `restart`, each task starts from new random means and small variances
    (as in their second code) instead of from the posterior, and the prior alone holds the past.
    """

    optimizers = ("sgd", "adam")

    backbone: Backbone = setting(mlp, "a sequence of linear layers", choices=BACKBONES)
    recipe: Recipe = recipe_field(lr=0.03)
    coreset_size: int = setting(0, "examples of each task put aside; the paper has 0, 40 and 200", least=0)
    coreset: Coreset = setting(random_points, "how those examples are chosen", choices=CORESETS)
    coreset_epochs: int = setting(0, "passes over a coreset before an answer; 0: as many as over a task", least=0)
    strength: float = setting(1.0, "weight of the divergence from the prior; 1 is Bayes' rule", least=0)
    prior_variance: float = setting(1.0, "of weights that no task has used yet", above=0)
    first_log_variance: float = setting(-6.0, "of every new weight when training begins")
    first_std: float = setting(
        0.0, "of new means; 0: as the backbone has them (theirs: 0.1)", omit_default=True, least=0
    )
    likelihood_first: bool = setting(True, "start the first task's means from a maximum-likelihood training")
    restart: bool = setting(False, "start every task from new weights, not from the posterior")
    train_samples: int = setting(10, "draws of the weights per step", least=1)
    answer_samples: int = setting(100, "draws of the weights per answer", least=1)

    coresets: Memory = saved(default_factory=Memory)
    refreshed: dict[str, Net] = derived(default_factory=dict)  # made from the above when asked

    def __post_init__(self) -> None:
        if self.recipe.flip_tta:
            raise SettingsError("flip_tta is True, but VCL answers by draws of its weights alone; leave it out")

    def _train(self, task: Task) -> Work[Episode]:
        """Puts a coreset aside and moves the posterior on the rest."""
        net = self.grow_net(task)
        prior = self.prior_of(task, net)
        kept, rest = split_off(task, self.coreset, self.coreset_size, self.episode_seed("coreset"))
        if self.likelihood_first and not self.classes:
            yield from self.fit_net(net, task, cross_entropy, self.episode_seed("likelihood"))
        loss = yield from self.fit_net(net, rest, self.objective(rest, prior), self.episode_seed())
        self.net, self.refreshed = net, {}
        self.coresets = self.coresets if kept is None else self.coresets.add(task.name, kept)
        return Episode((task.name,), None, loss)

    def grow_net(self, task: Task) -> Net:
        net = super().grow_net(task)
        if self.restart and self.net is not None:
            fresh = self.new_net([task], self.episode_seed("restart"))
            net.backbone = fresh.backbone
            if self.shared_head:
                net.heads[0] = fresh.heads[0]
        if self.first_std:
            self._scatter(net)
        return make_gaussian(net, self.first_log_variance, "vcl").to(self.recipe.torch_device)

    def _scatter(self, net: Net) -> None:
        """Draws the means of layers that are new from a normal distribution, cut at twice its deviation."""
        rng, most = generator(self.episode_seed("means")), 2 * self.first_std
        for layer in net.modules():
            if isinstance(layer, nn.Linear) and not isinstance(layer, GaussianLinear):
                for part in layer.parameters():
                    drawn = nn.init.trunc_normal_(torch.empty(part.shape), 0.0, self.first_std, -most, most, rng)
                    part.data.copy_(drawn)

    def rebuild_net(self, spec: Mapping[str, Json], seed: int) -> Net:
        return make_gaussian(super().rebuild_net(spec, seed), self.first_log_variance, "vcl")

    def prior_of(self, task: Task, net: Net) -> list[Distribution]:
        """What is believed about each layer before a task: the posterior of layers that past tasks used."""
        layers = gaussian_layers(net, task.name)
        past: list[GaussianLinear] = []
        if self.net is not None:
            past = gaussian_layers(self.net.to(self.recipe.torch_device), next(iter(self.classes)))
        known = past if self.shared_head else past[:-1]
        new = (torch.zeros(()), torch.tensor(math.log(self.prior_variance)))
        return [beliefs(layer) for layer in known] + [new] * (len(layers) - len(known))

    def objective(self, task: Task, prior: Sequence[Distribution]) -> Loss:
        """The expected loss of a row and its share of the divergence from the prior: minus the paper's L_VCL, over N."""

        def loss(net: Net, batch: Batch) -> Tensor:
            logits = sampled_logits(net, batch.x, task.name, noise_for_rows(self.train_samples))
            missed = F.cross_entropy(logits.flatten(0, 1), batch.y.repeat(self.train_samples))
            pairs = zip(gaussian_layers(net, task.name), prior, strict=True)
            apart = torch.stack([divergence(layer.distribution(), before) for layer, before in pairs]).sum()
            return missed + self.strength / len(task.train) * apart

        return loss

    def fit_net(self, net: Net, task: Task, loss: Loss, seed: int, epochs: int = 0) -> Work[float]:
        """Trains a net on a task, for the recipe's epochs if not told; weight decay has no part in it."""
        recipe = replace(self.recipe, weight_decay=0.0, precision="float32", epochs=epochs or self.recipe.epochs)
        return self.fit(net, [task], seed, recipe=recipe, loss=loss)

    @torch.no_grad()
    def answer(self, x: Tensor, task: str) -> Tensor:
        """The mean probabilities over draws of the weights, after a look at the coreset."""
        net, device = self.refresh(task), self.recipe.torch_device
        net.to(device).eval()
        seed = derive(self.seed, "answers", task)
        parts = []
        for rows in torch.split(x, 256):
            noise = common_noise(self.answer_samples, generator(seed))
            logits = sampled_logits(net, rows.to(device), task, noise)
            parts.append(torch.softmax(logits, dim=2).mean(dim=0))
        return torch.cat(parts).cpu()

    def refresh(self, task: str) -> Net:
        """The posterior after learning the coreset of a task, or of all that share its head."""
        assert self.net is not None
        if not len(self.coresets):
            return self.net
        owner = self.net.tasks[self.net.head_index[task]]
        if owner not in self.refreshed:
            self.refreshed[owner] = self._with_coreset(self.net, owner)
        return self.refreshed[owner]

    def _with_coreset(self, posterior: Net, task: str) -> Net:
        held = self.coresets.with_one_head() if self.shared_head else self.coresets
        rows = next(batch for batch in held.by_task() if batch.tasks == (task,))
        examples = Examples(rows.x, rows.y)
        known = Task(task, examples, examples, self.classes[task])
        with torch.inference_mode(False), torch.enable_grad():
            net = deepcopy(posterior).to(self.recipe.torch_device)
            prior = [beliefs(layer) for layer in gaussian_layers(net, task)]
            seed = derive(self.seed, "refresh", self.episode, task)
            fitting = replace(self).fit_net(net, known, self.objective(known, prior), seed, self.coreset_epochs)
            run_to_end(fitting)  # by a learner without checkpoints
        return net

    @property
    def stored_samples(self) -> int:
        return len(self.coresets)


def beliefs(layer: GaussianLinear) -> Distribution:
    """A copy of what a layer's weights are believed to be."""
    means, log_variances = layer.distribution()
    return means.detach(), log_variances.detach()


def split_off(task: Task, coreset: Coreset, size: int, seed: int) -> tuple[Examples | None, Task]:
    """The coreset of a task, if any, and the task without it."""
    size = min(size, len(task.train) // 2)
    if not size:
        return None, task
    kept = torch.zeros(len(task.train), dtype=torch.bool)
    kept[coreset(task.train.x, size, seed)] = True
    trained = ~kept
    for label in range(len(task.classes)):
        own = (task.train.y == label).nonzero()[:, 0]
        if not bool(kept[own].any()):
            kept[own[0]], trained[own[0]] = True, False
        if not bool(trained[own].any()):
            kept[own[-1]], trained[own[-1]] = len(own) == 1, True
    rows, rest = kept.nonzero()[:, 0], trained.nonzero()[:, 0]
    return task.train.select(rows), replace(task, train=task.train.select(rest))
