"""The state of learners, declared by fields: each is a setting, saved or derived, and no other attribute can be set.

How saved fields are written and read follows from their types (`runs/state.py`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from zoolearn.data.task import Task
from zoolearn.errors import SettingsError


def saved(**options: Any) -> Any:
    """A field changed by learning: part of every saved episode and of checkpoints."""
    return field(**{"init": False, "repr": False, **options}, metadata={"state": "saved"})


def derived(**options: Any) -> Any:
    """A field that can be rebuilt from settings, saved fields and the tasks met; never saved."""
    return field(**{"init": False, "repr": False, **options}, metadata={"state": "derived"})


@dataclass(kw_only=True, eq=False)
class Stateful:
    """Settings, saved and derived fields; setting any other attribute is an error, since a resumed run would lose it."""

    # True: an episode adds to saved lists and dicts, and only that is saved; False: all is
    grows: ClassVar[bool] = False

    episode: int = saved(default=0, repr=True)  # tasks met so far, counted: the number of the episode under way
    before: dict[str, Any] = derived(default_factory=dict)  # the saved fields when the latest episode began

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dataclass_fields__:
            raise SettingsError(
                f"{type(self).__name__} has no field {name!r}, so it would be lost when a run is continued; declare "
                f"`{name}: ... = saved()` if learning changes it, `derived()` if it can be made again"
            )
        super().__setattr__(name, value)

    def rebuild(self, tasks: Sequence[Task]) -> None:
        """Rebuilds derived fields after the saved ones are loaded; without `tasks` the learner can only predict."""

    @contextmanager
    def begin_episode(self) -> Iterator[None]:
        """Restores all fields if the episode inside `with` is abandoned.

        Values with a `copy()` (lists, dicts) may be changed in place; others must be replaced.
        """
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        now = {name: value.copy() if hasattr(value, "copy") else value for name, value in values.items()}
        before = {part.name: now[part.name] for part in fields(self) if part.metadata.get("state") == "saved"}
        earlier, self.before, episode = self.before, before, self.episode
        try:
            yield
            for name in (part.name for part in fields(self) if part.init):
                if getattr(self, name) != values[name]:
                    raise SettingsError(f"learning changed the setting {name!r}; keep what changes in a saved() field")
        except BaseException:
            if self.before is before and self.episode == episode:  # and no other episode has come since
                vars(self).update(now, before=earlier)
            raise
