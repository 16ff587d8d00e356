"""The checks of the contract notice methods that break it, each by the check that is meant for it."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.errors import SettingsError, StoreError
from zoolearn.methods.bases.single_net import FineTune, SingleNet
from zoolearn.methods.er import Er
from zoolearn.methods.learner import Episode
from zoolearn.methods.parts.reservoir import Reservoir
from zoolearn.methods.si import Si
from zoolearn.methods.state import derived, saved
from zoolearn.runs.state import State, restore, save, saved_types
from zoolearn.testing import (
    TOYS,
    Subject,
    check_abandoned,
    check_counts,
    check_declarations,
    check_learner,
    check_runs,
    check_seeds,
    show,
)
from zoolearn.training.fit import cross_entropy

pytestmark = pytest.mark.slow  # methods are trained many times


def fine_tuned(self: SingleNet, task: Task, **slots: Any) -> Generator[Any, None, Episode]:
    net = self.grow_net(task)
    loss = yield from self.fit(net, [task], **slots)
    self.net = net
    return Episode((task.name,), None, loss)


@dataclass(kw_only=True, eq=False)
class Undeclared(FineTune):
    buffer: Tensor = field(init=False, default_factory=lambda: torch.zeros(2))


def test_a_field_that_does_not_say_what_it_is_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"Undeclared.buffer is no setting and does not say whether it is saved"):
        check_declarations(Subject(Undeclared))


@dataclass(kw_only=True, eq=False)
class OutOfTheBlue(FineTune):
    def _train(self, task: Task) -> Generator[Any, None, Episode]:
        self.count = 1
        return (yield from fine_tuned(self, task))


def test_an_attribute_that_appears_on_the_way_is_refused_with_the_way_out() -> None:
    with pytest.raises(SettingsError, match=r"OutOfTheBlue has no field 'count'.*declare `count: ... = saved\(\)`"):
        show(Subject(OutOfTheBlue).fresh(), TOYS)


class OfTheClass(FineTune):
    seen: list[str] = []  # noqa: RUF012 (what is tested)


def test_state_of_the_class_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"OfTheClass\.seen belongs to the class"):
        saved_types(OfTheClass)


@dataclass(kw_only=True, eq=False)
class MovingSetting(FineTune):
    rate: float = field(default=1.0, metadata={"help": "a rate"})

    def _train(self, task: Task) -> Generator[Any, None, Episode]:
        self.rate /= 2
        return (yield from fine_tuned(self, task))


def test_a_setting_that_learning_changes_is_refused() -> None:
    with pytest.raises(SettingsError, match="learning changed the setting 'rate'"):
        show(Subject(MovingSetting).fresh(), TOYS)


@dataclass(kw_only=True, eq=False)
class Unreadable(FineTune):
    tasks: dict[int, str] = saved(default_factory=dict)


def test_a_type_that_could_not_be_read_again_is_refused_before_anything_is_learned() -> None:
    with pytest.raises(SettingsError, match=r"Unreadable.tasks is declared as dict\[int, str\], which cannot be saved"):
        check_declarations(Subject(Unreadable))


@dataclass(kw_only=True, eq=False)
class Forgetful(Er):
    """ER whose memory is said to be derived, though it is not."""

    memory: Reservoir = derived()


@dataclass(kw_only=True, eq=False)
class Hidden(FineTune):
    """Counts its steps where nobody sees it."""

    def _train(self, task: Task) -> Generator[Any, None, Episode]:
        count = torch.zeros(1)

        def loss(net: Any, batch: Any) -> Tensor:
            count.add_(1)
            return cross_entropy(net, batch) * (1 + count[0] / 10)

        return (yield from fine_tuned(self, task, loss=loss))


@dataclass(kw_only=True, eq=False)
class Declared(Hidden):
    """The same count in a saved field, changed in place."""

    count: Tensor = saved(default_factory=lambda: torch.zeros(1))

    def _train(self, task: Task) -> Generator[Any, None, Episode]:
        self.count = torch.zeros(1)

        def loss(net: Any, batch: Any) -> Tensor:
            self.count.add_(1)
            return cross_entropy(net, batch) * (1 + self.count[0] / 10)

        return (yield from fine_tuned(self, task, loss=loss))


@pytest.mark.parametrize("method", [Forgetful, Hidden])
def test_state_that_is_not_saved_is_noticed_by_cutting_a_run(method: Any) -> None:
    with pytest.raises(AssertionError, match="cut and continued"):
        check_runs(Subject(method))


def test_a_saved_field_that_training_changes_in_place_goes_through_checkpoints() -> None:
    check_runs(Subject(Declared))


@dataclass(kw_only=True, eq=False)
class InPlace(FineTune):
    def grow_net(self, task: Task) -> Any:
        if self.net is None:
            return super().grow_net(task)
        self.net.add_head(task.name, len(task.classes))
        return self.net


def test_a_net_that_is_trained_in_place_is_noticed_by_abandoning_an_episode() -> None:
    with pytest.raises(AssertionError, match="an abandoned episode changed what came after it"):
        check_abandoned(Subject(InPlace))


@dataclass(kw_only=True, eq=False)
class Uncounted(Er):
    @property
    def stored_samples(self) -> int:
        return 0


def test_rows_that_are_kept_and_not_counted_are_noticed() -> None:
    with pytest.raises(AssertionError, match=r"\d+ training rows are kept, stored_samples is 0"):
        check_counts(Subject(Uncounted))


@dataclass(kw_only=True, eq=False)
class GlobalSeed(FineTune):
    def _train(self, task: Task) -> Generator[Any, None, Episode]:
        torch.manual_seed(0)
        return (yield from fine_tuned(self, task))


def test_a_global_seed_is_noticed() -> None:
    noticed = pytest.raises(AssertionError, match="the caller's random state was changed")
    with torch.random.fork_rng(), noticed:
        check_seeds(Subject(GlobalSeed))


def test_a_method_with_settings_of_its_own_can_be_asked() -> None:
    check_learner(Er, memory_size=10, memory_loss="added")


def altered(info: Any, *path: Any, value: Any) -> Any:
    """The same data with another value at a path."""
    if not path:
        return value
    changed = dict(info) if isinstance(info, dict) else list(info)
    changed[path[0]] = altered(info[path[0]], *path[1:], value=value)
    return changed


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("episode",), "2", "episode is '2' where the learner has of type int"),
        (("penalty", "anchor"), 0.5, "penalty.anchor is '0.5' where the learner has a tensor"),
        (("penalty",), {"anchor": "tensor"}, "where the learner has a record of anchor, importance, rest"),
        (("classes", "stripes"), "stripes 0", r"classes\['stripes'\] is 'stripes 0' where the learner has a list"),
        (("net", "spec", "heads"), [2], "net .*heads.1"),
        (("net", "spec", "backbone"), "os.system", "unknown backbone 'os.system'"),
        (("dtype",), "ones", "dtype is 'ones' where the learner has a type of tensors"),
    ],
)
def test_saved_data_is_held_against_the_fields_and_what_differs_is_named(path: Any, value: Any, told: str) -> None:
    learner = show(Subject(Si).fresh(), TOYS[:2])
    snapshot = save(learner)
    restore(Subject(Si).fresh(), [snapshot])
    with pytest.raises((StoreError, SettingsError), match=told):
        restore(Subject(Si).fresh(), [State(altered(snapshot.info, *path, value=value), snapshot.files)])


def test_fields_and_tensors_too_many_or_too_few_are_named() -> None:
    snapshot = save(show(Subject(Si).fresh(), TOYS[:1]))
    tensors = dict(snapshot.files["penalty/0001"])
    with pytest.raises(StoreError, match="what was saved has no field 'path'"):
        restore(Subject(Si).fresh(), [save(show(Subject(FineTune).fresh(), TOYS[:1]))])
    with pytest.raises(StoreError, match="FineTune has no field 'path'"):
        restore(Subject(FineTune).fresh(), [snapshot])
    for files, told in (
        (
            {**snapshot.files, "penalty/0001": {**tensors, "penalty.more": torch.zeros(1)}},
            "has no tensor 'penalty.more'",
        ),
        ({**snapshot.files, "penalty/0001": {"penalty.rest": tensors["penalty.rest"]}}, "penalty.anchor is 'tensor'"),
    ):
        with pytest.raises(StoreError, match=told):
            restore(Subject(Si).fresh(), [State(snapshot.info, files)])
