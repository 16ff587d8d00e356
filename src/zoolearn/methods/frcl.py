"""FRCL: functional regularisation for continual learning with Gaussian processes (Titsias et al., 2020)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoolearn.data.task import Task
from zoolearn.errors import SettingsError
from zoolearn.methods.bases.single_net import SingleNet
from zoolearn.methods.learner import Episode, recipe_field
from zoolearn.methods.parts import gp
from zoolearn.methods.parts.flat import clip_gradients
from zoolearn.methods.parts.pergrad import evaluation_mode
from zoolearn.methods.state import saved
from zoolearn.nets.backbones import BACKBONES, Backbone, backbone_name
from zoolearn.nets.net import Net
from zoolearn.nets.perceptrons import mlp
from zoolearn.seeds import derive, generator
from zoolearn.settings import setting
from zoolearn.training.batches import Batch
from zoolearn.training.fit import Loss, Work
from zoolearn.training.recipe import Recipe

Select = Callable[[Tensor, int, int, float, int], Tensor]  # (features, points, proposals, jitter, seed) -> positions


def random_points(features: Tensor, points: int, proposals: int, jitter: float, seed: int) -> Tensor:
    """Positions of a uniform draw."""
    return torch.randperm(len(features), generator=generator(seed))[:points]


def least_unexplained(features: Tensor, points: int, proposals: int, jitter: float, seed: int) -> Tensor:
    """Positions found by exchange: a random draw, each in turn replaced by a random other point where that explains more."""
    *_, (chosen, _) = iter_exchanges(features, points, proposals, jitter, seed)
    return chosen


def iter_exchanges(
    features: Tensor, points: int, proposals: int, jitter: float, seed: int
) -> Iterator[tuple[Tensor, float]]:
    """The search of `least_unexplained`: positions and trace criterion, at first and after every proposal."""
    order = torch.randperm(len(features), generator=generator(seed))
    gram = features.T @ features
    chosen, others = order[:points], order[points : points + proposals]
    best = float(gp.unexplained(features[chosen], gram, jitter))
    yield chosen, best
    for number, other in enumerate(others):
        proposed = chosen.clone()
        proposed[number % points] = other
        value = float(gp.unexplained(features[proposed], gram, jitter))
        if value < best:
            chosen, best = proposed, value
        yield chosen, best


SELECTIONS: dict[str, Select] = {"trace": least_unexplained, "random": random_points}


@dataclass(frozen=True, eq=False)
class Inducing:
    """What is remembered of a task: some of its inputs, and what its functions were believed to be there.

    For each class c, N(mean[:, c], lower[c] lower[c]').
    """

    x: Tensor
    mean: Tensor
    lower: Tensor

    def to(self, device: torch.device) -> "Inducing":
        return Inducing(self.x.to(device), self.mean.to(device), self.lower.to(device))


class GaussianHead(nn.Linear):
    """A linear head whose weights are Gaussian, those of each class with a full covariance; a bias counts as a weight.

    `weight` and `bias` are the means; the lower triangle of scale[c] is a factor of the covariance of class c.
    """

    def __init__(self, layer: nn.Linear, scale: float) -> None:
        nn.Module.__init__(self)  # a linear layer's own would draw weights only for them to be replaced
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias = layer.weight, layer.bias
        size = layer.in_features + 1
        eye = scale * torch.eye(size, device=layer.weight.device)
        self.scale = nn.Parameter(eye.expand(layer.out_features, size, size).clone())

    @property
    def lower(self) -> Tensor:
        """The factors of the covariances, (classes, weights, weights)."""
        return self.scale.tril()

    @property
    def mean(self) -> Tensor:
        """The mean weights, (classes, weights)."""
        return torch.cat([self.weight, self.bias[:, None]], dim=1)

    def moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each class's function at features that end in a 1, (rows, classes) each."""
        return features @ self.mean.T, (features @ self.lower).square().sum(dim=2).T

    def divergence(self) -> Tensor:
        """The sum over classes of KL(N(mean_c, lower_c lower_c') || N(0, I))."""
        lower = self.lower
        logs = 2 * lower.diagonal(dim1=1, dim2=2).abs().log().sum()
        return 0.5 * (lower.square().sum() + self.mean.square().sum() - self.mean.numel() - logs)


@dataclass(kw_only=True, eq=False)
class Frcl(SingleNet):
    """Remembers each task's function at a few inputs, and keeps features under which that function stays likely.

    "Functional Regularisation for Continual Learning with Gaussian Processes" (Titsias et al., 2020), equation 7 and
    section 3. The head of each task is Gaussian with prior N(0, I), so each class's function is a Gaussian process
    whose kernel is the inner product of features, a constant 1 among them. A task is learned with q(w_c) = N(mu_c, L_c
    L_c') over head weights; then, at `points` of its inputs Z, the belief N(m_c, S_c) = N(Phi mu_c, Phi L_c L_c' Phi' +
    jitter I) is kept and the head is dropped. The loss of the next task is the mean over rows of -E_q[log p(y | f)],
    plus, over its N examples, KL(q(w) || N(0, I)) and for every past task and class KL(N(m_c, S_c) || N(0, K)) with K
    the kernel of its points under the features as they now are. A question about a task is answered by the Gaussian
    process given its points: what later tasks did to the features, it takes into account.

    Points are chosen after the task, by exchange so that least variance remains unexplained at its training data
    ("trace"), or at random. Kernels are float64.

    The authors train by Adam at a rate near 1e-3; so do we by default, at 3e-3. The recipe's weight decay is not used;
    training is in float32.

    `stored_samples` are the points; `num_parameters` counts the backbone and, of every task, the means and covariance factors
    at its points: points * classes * (points + 1) numbers.

    Where we differ: (1) the likelihood is softmax, its mean over `train_samples` (or, for answers, `answer_samples`)
    draws of the function, in place of robust-max by quadrature; (2) the objective is per example, not per task, which
    leaves Adam's steps nearly as they are; (3) the points that the search found are used, where the published notebook
    goes on with those that it began with; (4) points are offered once each, so no point is kept twice; (5) any
    backbone without batch-norm gives the features; the authors' (`mlp-frcl`) are linear in the last hidden layer, and
    with an activation after it more is forgotten; (6) the recipe's dropout acts on new rows, never at the points; (7) a
    new head starts with standard deviations of `first_scale` (theirs 1), since with few data it is else easier to make
    all features small than to learn, and long gradients are clipped to `max_grad_norm` (theirs are not), since
    kernels of nearly singular features give some.

    Every task has its own function, so there is no head that tasks could share.
    """

    optimizers = ("sgd", "adam")

    backbone: Backbone = setting(mlp, "any without batch-norm", choices=BACKBONES)
    recipe: Recipe = recipe_field(optimizer="adam", lr=3e-3)
    points: int = setting(40, "inputs of each task at which its function is remembered", least=1)
    select: Select = setting(least_unexplained, "how those inputs are chosen", choices=SELECTIONS)
    proposals: int = setting(1000, "exchanges that are tried, for select=trace", least=0)
    jitter: float = setting(1e-3, "added to the diagonal of kernels", above=0)
    train_samples: int = setting(10, "draws of the function per step", least=1)
    answer_samples: int = setting(100, "draws of the function per answer", least=1)
    first_scale: float = setting(0.1, "standard deviation of a new head's weights when training begins", above=0)
    max_grad_norm: float = setting(1.0, "longer gradients are clipped to this length; 0: none are", least=0)

    inducing: dict[str, Inducing] = saved(default_factory=dict)

    def __post_init__(self) -> None:
        if self.shared_head:
            raise SettingsError("shared_head is set, but frcl has a function of its own for every task; leave it out")

    def _train(self, task: Task) -> Work[Episode]:
        """Learns the task while past functions stay likely, then remembers its function."""
        net = self.grow_net(task)
        loss = yield from self.fit(
            net,
            [task],
            recipe=replace(self.recipe, weight_decay=0.0, precision="float32"),
            loss=self.objective(task),
            adjust=clip_gradients(net.trainable([task.name]), self.max_grad_norm),
        )
        remembered = self.remember(net, task)
        net.heads, net.head_index = nn.ModuleList(), {}
        self.net, self.inducing = net, {**self.inducing, task.name: remembered}
        return Episode((task.name,), None, loss)

    def grow_net(self, task: Task) -> Net:
        net = super().grow_net(task)
        self.shared_parameters(net)
        if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in net.modules()):
            raise SettingsError(
                f"frcl takes backbones without batch-norm, such as mlp, mlp-100 or mlp-2000; "
                f"{backbone_name(net.backbone_fn)!r} has some"
            )
        net.heads[-1] = GaussianHead(net.head(task.name), self.first_scale)
        return net.to(self.recipe.torch_device)

    def objective(self, task: Task) -> Loss:
        """The expected loss of a row and its share of all divergences: minus the paper's bound, over N."""
        past = self.past_divergence()

        def loss(net: Net, batch: Batch) -> Tensor:
            head = net.head(task.name)
            assert isinstance(head, GaussianHead)
            mean, variance = head.moments(with_one(net.embed(batch.x)))
            drawn = mean + variance.sqrt() * torch.randn(self.train_samples, *mean.shape, device=mean.device)
            missed = F.cross_entropy(drawn.flatten(0, 1), batch.y.repeat(self.train_samples))
            return missed + (head.divergence() + past(net).to(missed.dtype)) / len(task.train)

        return loss

    def past_divergence(self) -> Callable[[Net], Tensor]:
        """How unlikely a net's features make the functions of all past tasks; one pass for all their points."""
        kept = [inducing.to(self.recipe.torch_device) for inducing in self.inducing.values()]
        if not kept:
            return lambda net: torch.zeros((), device=self.recipe.torch_device)
        x = torch.cat([inducing.x for inducing in kept])
        sizes = [len(inducing.x) for inducing in kept]

        def divergence(net: Net) -> Tensor:
            with evaluation_mode(net):
                features = torch.split(with_one(net.embed(x)).double(), sizes)
            pairs = zip(kept, features, strict=True)
            return torch.stack(
                [gp.divergence(old.mean, old.lower, gp.kernel_of(now, self.jitter)) for old, now in pairs]
            ).sum()

        return divergence

    @torch.no_grad()
    def remember(self, net: Net, task: Task) -> Inducing:
        """A task's function at some of its inputs, from its head."""
        head = net.head(task.name)
        assert isinstance(head, GaussianHead)
        features = features_of(net, task.train.x)
        points = min(self.points, len(features))
        seed = self.episode_seed("points")
        chosen = self.select(features.cpu(), points, self.proposals, self.jitter, seed)
        at = features[chosen.to(features.device)]
        roots = at @ head.lower.double()
        noise = self.jitter * torch.eye(points, dtype=at.dtype, device=at.device)
        lower = gp.factor(roots @ roots.mT + noise)
        return Inducing(task.train.x[chosen], (at @ head.mean.double().T).cpu(), lower.cpu())

    def belief(self, x: Tensor, task: str) -> tuple[Tensor, Tensor]:
        """Mean and variance of each class's function at some inputs, given what is remembered of the task."""
        assert self.net is not None
        old = self.inducing[task].to(self.recipe.torch_device)
        return gp.posterior(features_of(self.net, x), features_of(self.net, old.x), old.mean, old.lower, self.jitter)

    @torch.no_grad()
    def answer(self, x: Tensor, task: str) -> Tensor:
        """The mean probabilities over draws of the function, the same draws for every row."""
        assert self.net is not None
        self.net.to(self.recipe.torch_device)
        classes = len(self.classes[task])
        noise = torch.randn(self.answer_samples, 1, classes, generator=generator(derive(self.seed, "answers", task)))
        parts = []
        for rows in torch.split(x, 1024):
            mean, variance = (part.cpu().float() for part in self.belief(rows, task))
            parts.append(torch.softmax(mean + variance.sqrt() * noise, dim=2).mean(dim=0))
        return torch.cat(parts)

    @property
    def stored_samples(self) -> int:
        return sum(len(inducing.x) for inducing in self.inducing.values())

    @property
    def num_parameters(self) -> int:
        return super().num_parameters + sum(old.mean.numel() + old.lower.numel() for old in self.inducing.values())


def with_one(features: Tensor) -> Tensor:
    """Features and a constant 1, for the bias."""
    return F.pad(features, (0, 1), value=1.0)


@torch.no_grad()
def features_of(net: Net, x: Tensor) -> Tensor:
    """The features of raw inputs with their constant 1, in evaluation mode, in float64."""
    device = next(net.parameters()).device
    with evaluation_mode(net):
        return torch.cat([with_one(net.embed(rows.to(device))).double() for rows in torch.split(x, 1024)])
