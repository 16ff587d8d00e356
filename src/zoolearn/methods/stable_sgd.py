"""Stable-SGD: a training regime that forgets less (Mirzadeh et al., 2020)."""

from dataclasses import dataclass, replace

from zoolearn.data.task import Task
from zoolearn.methods.bases.single_net import SingleNet
from zoolearn.methods.learner import Episode, recipe_field
from zoolearn.settings import setting
from zoolearn.training.fit import Work
from zoolearn.training.recipe import Recipe
from zoolearn.training.sgd import Sgd


@dataclass(kw_only=True, eq=False)
class StableSgd(SingleNet):
    """Fine-tuning with dropout, small batches and a learning rate that starts large and shrinks from task to task.

    "Understanding the Role of Training Regimes in Continual Learning" (Mirzadeh et al., 2020), section 4: a past task is
    forgotten by at most its curvature times the squared way that the weights go later, so the regime ends in flat minima
    and goes little. Task t (from 0) is learned at max(lr * lr_decay^(t + 1), lr_floor), where `lr` is the recipe's: the
    decay applies to the first task already, as in the authors' code. Dropout, batch size and momentum are the recipe's
    (theirs: 0.1, 10 and 0.8 on Split-CIFAR100 with lr 0.15); momentum starts again at every epoch. Nothing is stored.

    Where we differ: the rate of a task is constant only with the recipe's `schedule="constant"`, as theirs is, and
    otherwise annealed from there.

    Batch-norm statistics are shared and follow the latest task.
    """

    smooths_labels = True
    tasks_grow = True

    recipe: Recipe = recipe_field(lr=0.05)
    lr_decay: float = setting(0.85, "factor of the learning rate from each task to the next", above=0, most=1)
    lr_floor: float = setting(5e-5, "the learning rate does not fall below this", least=0)

    @property
    def lr(self) -> float:
        return max(self.recipe.lr * self.lr_decay ** (self.episode + 1), self.lr_floor)

    def _train(self, task: Task) -> Work[Episode]:
        net = self.grow_net(task)
        loss = yield from self.fit(net, [task], recipe=replace(self.recipe, lr=self.lr), optimizer=RestartingSgd)
        self.net = net
        return Episode((task.name,), None, loss)


class RestartingSgd(Sgd):
    """SGD whose momentum starts again at every epoch."""

    def begin_epoch(self) -> None:
        for moment in self.momenta:
            moment.zero_()
