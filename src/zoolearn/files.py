"""Files written atomically, with checksums, and never able to execute code when read."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file
from torch import Tensor

from zoolearn.errors import StoreError

Json = Any  # what the json module reads and writes; Python cannot say that type exactly

INFO = "zoolearn"  # the key of our own record in a safetensors header
NOT_IN_NUMPY = {torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2}


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Gives a temporary path to write; on success it replaces `path` atomically, on failure nothing changes."""
    part = path.with_name(f".{path.name}.{os.getpid()}-{token_hex(4)}.part")
    try:  # from before the file is made, so that an interrupt at any moment leaves none
        mode = _create(part, path)
        yield part
        part.chmod(mode)  # some writers make files that no other user may read
        flush(part)
        os.replace(part, path)
        flush(path.parent)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StoreError(f"cannot write {path}: {reason}; the file that was there is unchanged") from error
    finally:
        with suppress(OSError):  # where no file could be made, none is to be found
            part.unlink()


def _create(part: Path, path: Path) -> int:
    """Makes an empty file to write `path` to; returns the rights that files have here."""
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        part.touch(exist_ok=False)
        return part.stat().st_mode
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}; nothing was changed") from error


def flush(path: Path) -> None:
    """Flushes a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def checksum(path: Path) -> str:
    """The sha256 of a file."""
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def save_text(path: Path, text: str) -> None:
    """Writes a text file atomically."""
    with replace_file(path) as part:
        part.write_text(text, encoding="utf-8")


def save_json(path: Path, content: Mapping[str, Json], *, indent: int | None = None) -> None:
    """Writes a JSON object atomically, with the checksum of its content inside."""
    save_text(path, json.dumps(seal(content), indent=indent, allow_nan=False) + "\n")


def load_json(path: Path) -> dict[str, Json]:
    """Reads what `save_json` wrote; a truncated or altered file is an error that names it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StoreError(f"{path} is missing") from error
    except (ValueError, OSError, RecursionError) as error:
        raise StoreError(f"{path} is damaged or cannot be read ({error}); restore it from a copy") from error
    return unseal(content, str(path))


def seal(content: Mapping[str, Json]) -> dict[str, Json]:
    """A JSON object with the checksum of its content inside."""
    return {**content, "checksum": _json_checksum(content)}


def unseal(sealed: Json, where: str) -> dict[str, Json]:
    """The content of what `seal` made; if it is anything else, the error says where it was read."""
    content = {**sealed} if isinstance(sealed, dict) else {}
    if content.pop("checksum", None) != _json_checksum(content):
        raise StoreError(f"{where} was altered: its content does not match its checksum; restore it from a copy")
    return content


def _json_checksum(content: Mapping[str, Json]) -> str:
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def save_tensors(path: Path, tensors: Mapping[str, Tensor], info: Mapping[str, Json] | None = None) -> str:
    """Writes tensors and a JSON record as one safetensors file, atomically; returns its checksum."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    record = {**(info or {}), "checksum": _tensors_checksum(plain, info or {})}
    with replace_file(path) as part:
        _write_tensors(part, plain, {INFO: json.dumps(record)})  # one entry: the order of several would be random
        digest = checksum(part)
    return digest  # noqa: RET504 (only once the file is in its place)


def _write_tensors(path: Path, tensors: Mapping[str, Tensor], header: dict[str, str]) -> None:
    """By way of numpy: safetensors' way from torch keeps some kilobytes for each size of a tensor that it ever met."""
    try:
        if any(tensor.dtype in NOT_IN_NUMPY for tensor in tensors.values()):
            save_file(dict(tensors), path, header)
        else:
            save_arrays({name: tensor.numpy() for name, tensor in tensors.items()}, path, header)
    except SafetensorError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error


def load_tensors(path: Path, expected: str | None = None) -> tuple[dict[str, Tensor], dict[str, Json]]:
    """The tensors and the record of a file that `save_tensors` wrote, after comparing it with its checksum.

    `expected` is the checksum that `save_tensors` returned; without it, the file is held to the one that it contains.
    """
    try:
        if expected is not None and checksum(path) != expected:
            raise StoreError(f"{path} is truncated or altered: its checksum differs; restore it from a copy")
        with safe_open(path, framework="np") as file:
            info = json.loads((file.metadata() or {}).get(INFO, "{}"))
            tensors = {name: read_tensor(path, file, name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        inner = info.pop("checksum", None)
        if expected is None and inner != _tensors_checksum(tensors, info):
            raise StoreError(f"{path} was altered: its content does not match its checksum; restore it from a copy")
        return tensors, info
    except FileNotFoundError as error:
        raise StoreError(f"{path} is missing; restore it from a copy") from error
    except (SafetensorError, ValueError, OSError, RecursionError) as error:
        raise StoreError(f"{path} is damaged or not a safetensors file ({error}); restore it from a copy") from error


def read_tensor(path: Path, file: Any, name: str) -> Tensor:
    """One tensor of a file that is open for numpy, copied: it lies at any address, and matrix products round by alignment.

    safetensors' way to torch loses two objects for each tensor that it reads, which counts in a server that runs for months.
    """
    if file.get_slice(name).get_dtype().startswith(("BF", "F8")):
        with safe_open(path, framework="pt") as other:
            tensor: Tensor = other.get_tensor(name)
    else:
        tensor = torch.from_numpy(file.get_tensor(name))
    return tensor.clone(memory_format=torch.contiguous_format)


def _tensors_checksum(tensors: Mapping[str, Tensor], info: Mapping[str, Json]) -> str:
    digest = sha256(_json_checksum(info).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        if tensor.numel():  # nothing cannot be viewed as bytes
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def load_state(module: torch.nn.Module, tensors: Mapping[str, Tensor], source: str) -> None:
    """Fills a module with saved tensors, after checking every name, shape and dtype against it."""
    wanted = module.state_dict()
    for name in sorted(wanted.keys() | tensors.keys()):
        if name not in tensors:
            raise StoreError(f"{source} lacks the tensor {name!r}; it is not a file of this network")
        if name not in wanted:
            raise StoreError(f"{source} holds a tensor {name!r} that this network does not have")
        here, there = wanted[name], tensors[name]
        if here.shape != there.shape or here.dtype != there.dtype:
            raise StoreError(
                f"{source}: {name!r} is {tuple(there.shape)} {there.dtype}, the network wants {tuple(here.shape)} {here.dtype}"
            )
    module.load_state_dict(dict(tensors))
