"""APD: additive parameter decomposition (Yoon et al., 2020)."""

from collections.abc import Generator
from dataclasses import dataclass, replace

from zoolearn.data.task import Task
from zoolearn.methods.bases.task_net import TaskNet
from zoolearn.methods.learner import Episode, recipe_field
from zoolearn.methods.parts.additive import AdditiveLayer, additive, objective
from zoolearn.methods.parts.taskweight import Layer, end_task
from zoolearn.nets.net import Net
from zoolearn.settings import setting
from zoolearn.training.adam import Adam
from zoolearn.training.fit import Progress
from zoolearn.training.recipe import Recipe


@dataclass(kw_only=True, eq=False)
class Apd(TaskNet):
    """Gives each task the shared weights, scaled unit by unit, plus a sparse correction that absorbs later changes.

    "Scalable and Order-robust Continual Learning with Additive Parameter Decomposition" (Yoon et al., 2020), equation 3.
    Task t sees the weights shared * sigmoid(mask_t) + correction_t. Its loss adds `sparsity` times the sum of the sizes of
    all tasks' corrections, and `retention` / 2 times the squared distance of every past task's weights from what they
    were when this task began: the shared weights may move if corrections of past tasks make up for it, which they can
    without data. Masks, biases and heads of past tasks are fixed, corrections of at most `sparsity` count as 0 in
    answers. The recipe's weight decay applies to the newest task's mask and correction, and to the shared weights during
    the first task.

    Steps are Adam's, at the recipe's learning rate and schedule, with its momentum as the decay of the first moment (the
    authors: 1e-3, 0.9, times 0.95 every epoch, 20 epochs, batches of 100, weight decay 1e-4).

    Backbones: any; batch-norm, which the authors' LeNet (lenet-apd) does not have, is each task's own.

    `num_parameters` counts the shared weights and a dense mask, correction, bias, norm and head per task, since corrections of
    past tasks are trained on, small entries too. Nothing is replayed.

    Where we differ: (1) the consolidation of corrections into groups every few tasks, "APD(2)", is left out: this is
    APD(1) and its memory grows by a net per task; (2) there is no validation set, so the last epoch is taken, not the best
    of the last five; (3) gradients are not multiplied by ten, which matters to Adam's epsilon alone; (4) biases start at
    0. The anchors are taken again with every task, as published, so small movements of old weights add up.
    """

    recipe: Recipe = recipe_field(lr=3e-3)
    sparsity: float = setting(6e-4, "weight of the size of corrections (lambda 1)", least=0)
    retention: float = setting(100.0, "weight of past tasks' changes (lambda 2)", least=0)

    def _train(self, task: Task) -> Generator[Progress, None, Episode]:
        """Trains the shared weights, the new task's own and past corrections."""
        net = self.grow_net(task).to(self.recipe.torch_device)
        penalised = objective(net, self.sparsity, self.retention, self.recipe.weight_decay)
        recipe = replace(self.recipe, weight_decay=0.0, precision="float32")
        loss = yield from self.fit(net, [task], recipe=recipe, loss=penalised, optimizer=Adam)
        end_task(net)
        self.net = net
        return Episode((task.name,), None, loss)

    def convert(self, net: Net) -> Net:
        return additive(net, self.decomposed_layer)

    def decomposed_layer(self, layer: Layer) -> AdditiveLayer:
        """A layer whose corrections start as copies of the shared weight and move on after their task."""
        return AdditiveLayer(layer, threshold=self.sparsity, start=1.0, retroactive=True)
