"""The state of a learner as plain data and tensors, and back: checked against the declared types, leaf by leaf.

States are None, numbers, text, tensors, nets, and lists, tuples, dicts and dataclasses of them. An error names the path
that differs; nothing that is read can execute code.
"""

from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from zoolearn.data.task import Task
from zoolearn.errors import SettingsError, StoreError
from zoolearn.files import Json, load_state
from zoolearn.methods.learner import Learner
from zoolearn.nets.net import Net
from zoolearn.training.checkpoints import Carried

TENSOR = "tensor"  # stands in plain data for the tensor with the same path

Build = Callable[[Mapping[str, Json], int], Net]  # an untrained net from its spec and seed


@dataclass(frozen=True)
class State:
    """The state after an episode: every saved field as plain data, and files (field/number) of tensors."""

    info: Mapping[str, Json]
    files: Mapping[str, Mapping[str, Tensor]]


def save(learner: Learner) -> State:
    """The state of the latest episode, for `restore`."""
    info, files = {}, {}
    for name in saved_types(type(learner)):
        value = getattr(learner, name)
        tensors: dict[str, Tensor] = {}
        info[name] = encode(_find_added(learner.before.get(name, ()), value) if learner.grows else value, name, tensors)
        if tensors:
            files[f"{name}/{learner.episode:04d}"] = tensors
    return State(info, files)


def restore(learner: Learner, snapshots: Sequence[State], tasks: Sequence[Task] = ()) -> None:
    """Loads states into a learner: of all episodes if it grows, else of the last one.

    `tasks` are those met, or none if the learner will only predict.
    """
    types = saved_types(type(learner))
    for snapshot in snapshots:
        for name in sorted(snapshot.info.keys() ^ types.keys()):
            lacks = "what was saved" if name in types else type(learner).__name__
            raise StoreError(f"{lacks} has no field {name!r}; was it saved by another learner?")
        tensors = {name: part for file in snapshot.files.values() for name, part in file.items()}
        for name, value in _iter_fields(learner, snapshot.info, tensors):
            if learner.grows and isinstance(value, list):
                getattr(learner, name).extend(value)
            elif learner.grows and isinstance(value, dict):
                getattr(learner, name).update(value)
            else:
                setattr(learner, name, value)
    learner.rebuild(tasks)


class Changes(Carried):
    """The saved fields that a training changes, also in place: saved in its checkpoints."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.marks: dict[str, object] = {}

    def begin(self) -> None:
        """Notes the fields when a training begins."""
        self.marks = self._fingerprints()

    def save(self, tensors: dict[str, Tensor]) -> Json:
        now = self._fingerprints()
        changed = [name for name in now if now[name] != self.marks[name]]
        return {name: encode(getattr(self.learner, name), name, tensors) for name in changed}

    def load(self, info: Json, tensors: dict[str, Tensor]) -> None:
        vars(self.learner).update(_iter_fields(self.learner, info, tensors))

    def _fingerprints(self) -> dict[str, object]:
        """Fingerprints of every saved field; entries of growing ones are never changed in place, so identity is enough."""
        found: dict[str, object] = {}
        for name in saved_types(type(self.learner)):
            value = getattr(self.learner, name)
            if self.learner.grows and isinstance(value, (list, dict)):
                found[name] = [*map(id, value.values() if isinstance(value, dict) else value)]
            else:
                found[name] = fingerprint(value)
        return found


def _iter_fields(learner: Learner, info: Mapping[str, Json], tensors: dict[str, Tensor]) -> Iterator[tuple[str, Any]]:
    for name, kind in saved_types(type(learner)).items():
        if name in info:
            yield name, decode(kind, info[name], name, tensors, learner.rebuild_net)
    for path in tensors:
        raise StoreError(f"{type(learner).__name__} has no tensor {path!r}; was it saved by another learner?")


def _find_added(before: Any, now: Any) -> Any:
    """The new or replaced entries of a list or dict; other values as they are."""
    if isinstance(now, list):
        return now[len(before) :]
    if isinstance(now, dict):
        return {key: part for key, part in now.items() if key not in before or before[key] is not part}
    return now


@cache
def saved_types(cls: type) -> dict[str, Any]:
    """The saved fields of a class of learners with their types.

    Raises on undeclared fields, types that cannot be decoded, and mutable class attributes.
    """
    _check_declared(cls)
    hints = get_type_hints(cls)
    types = {part.name: hints[part.name] for part in fields(cls) if part.metadata.get("state") == "saved"}
    for name, kind in types.items():
        _check_kind(kind, f"{cls.__name__}.{name}")
    return types


def _check_declared(cls: type) -> None:
    for part in fields(cls):
        if not part.init and "state" not in part.metadata:
            raise SettingsError(
                f"{cls.__name__}.{part.name} is no setting and does not say whether it is saved; declare it as saved() "
                "if learning changes it, as derived() if it can be made again"
            )
    for name, value in [item for base in cls.__mro__ for item in vars(base).items()]:
        if isinstance(value, (list, dict, set, Tensor)) and not name.startswith("_"):
            raise SettingsError(
                f"{cls.__name__}.{name} belongs to the class and would be shared by all learners of it; declare "
                f"`{name}: ... = saved(default_factory=...)`, or make it a constant of the module"
            )


def _check_kind(kind: Any, path: str) -> None:
    origin, inner = get_origin(kind), [part for part in get_args(kind) if part not in (NoneType, Ellipsis)]
    is_row = origin in (list, MutableSequence) or (origin is tuple and get_args(kind)[-1] is Ellipsis)
    if (is_row or origin in (Union, UnionType)) and len(inner) == 1:
        _check_kind(inner[0], path)
    elif origin in (dict, Mapping) and inner[0] is str:
        _check_kind(inner[1], path)
    elif is_dataclass(kind):
        for name, part in _part_types(cast(type, kind)).items():
            _check_kind(part, f"{path}.{name}")
    elif kind not in (bool, int, float, str, torch.dtype, Tensor, Net):
        raise SettingsError(
            f"{path} is declared as {kind}, which cannot be saved; use numbers, text, tensors, nets, and "
            "list[T], tuple[T, ...], dict[str, T] or dataclasses of them"
        )


@cache
def _part_types(cls: Any) -> dict[str, Any]:
    """The fields of a dataclass that are saved: all that are not derived."""
    hints = get_type_hints(cls)
    return {part.name: hints[part.name] for part in fields(cls) if part.metadata.get("state") != "derived"}


def encode(value: Any, path: str, tensors: dict[str, Tensor]) -> Json:
    """A value as plain data; its tensors go to `tensors`, by path."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, Tensor):
        tensors[path] = value
        return TENSOR
    if isinstance(value, Net):
        tensors |= {f"{path}.{name}": tensor for name, tensor in value.state_dict().items()}
        return {"spec": value.spec(), "seed": value.seed, "frozen": value.frozen}
    if is_dataclass(value):
        return {
            name: encode(getattr(value, name), f"{path}.{name}", tensors)
            for name in _part_types(cast(type, type(value)))
        }
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: encode(part, f"{path}[{key!r}]", tensors) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(part, f"{path}[{place}]", tensors) for place, part in enumerate(value)]
    raise SettingsError(f"{path} is {value!r}, which cannot be saved; keep what its type declares")


def decode(kind: Any, data: Json, path: str, tensors: dict[str, Tensor], build: Build) -> Any:
    """The inverse of `encode` for this type; used tensors are removed from `tensors`."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (some,) = (part for part in inner if part is not NoneType)
        return None if data is None else decode(some, data, path, tensors, build)
    if kind is Tensor:
        _require(data == TENSOR and path in tensors, path, "a tensor", data)
        return tensors.pop(path)
    if kind is Net:
        return _decode_net(data, path, tensors, build)
    if is_dataclass(kind) and isinstance(kind, type):
        types = _part_types(kind)
        _require(isinstance(data, dict) and data.keys() == types.keys(), path, f"a record of {', '.join(types)}", data)
        return kind(
            **{name: decode(part, data[name], f"{path}.{name}", tensors, build) for name, part in types.items()}
        )
    if origin in (dict, Mapping):
        _require(isinstance(data, dict), path, "a table", data)
        return {key: decode(inner[1], part, f"{path}[{key!r}]", tensors, build) for key, part in data.items()}
    if origin in (list, MutableSequence, tuple):
        _require(isinstance(data, list), path, "a list", data)
        return (tuple if origin is tuple else list)(
            decode(inner[0], part, f"{path}[{n}]", tensors, build) for n, part in enumerate(data)
        )
    if kind is torch.dtype:
        found = getattr(torch, data, None) if isinstance(data, str) else None
        _require(isinstance(found, torch.dtype), path, "a type of tensors", data)
        return found
    _require(type(data) is kind or (kind is float and type(data) is int), path, f"of type {kind.__name__}", data)
    return kind(data)


def _decode_net(data: Json, path: str, tensors: dict[str, Tensor], build: Build) -> Net:
    _require(isinstance(data, dict) and data.keys() == {"spec", "seed", "frozen"}, path, "a net", data)
    try:
        net = build(data["spec"], data["seed"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise StoreError(
            f"{path} describes no net of this learner ({error!r}); was it saved by another one?"
        ) from error
    own = [name for name in tensors if name.startswith(f"{path}.")]
    load_state(net, {name.removeprefix(f"{path}."): tensors.pop(name) for name in own}, path)
    return net.freeze() if data["frozen"] else net


def _require(holds: bool, path: str, wanted: str, data: Json) -> None:
    if not holds:
        raise StoreError(f"{path} is {str(data)[:80]!r} where the learner has {wanted}; was it saved by another one?")


def fingerprint(value: Any) -> object:
    """Changes when a value does, also in place, by the versions of tensors."""
    tensors: dict[str, Tensor] = {}
    plain = encode(value, "", tensors)
    return plain, [(path, part.shape, part.data_ptr(), part._version) for path, part in tensors.items()]
