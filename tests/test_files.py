"""Files are whole or not there; and what is computed does not depend on where in memory or in a file its numbers lay."""

from pathlib import Path

import numpy as np
import pytest
import torch

from zoolearn.files import load_tensors, save_tensors, save_text
from zoolearn.nets.net import Net
from zoolearn.nets.perceptrons import mlp
from zoolearn.training.predict import compute_features, probabilities
from zoolearn.training.recipe import Recipe


@pytest.fixture
def misaligned(tmp_path):
    """A file in which a matrix lies four bytes past any boundary, and its tensors."""
    generator = torch.Generator().manual_seed(0)
    tensors = {
        "a": torch.randn(1, generator=generator),
        "matrix": torch.randn(173, 211, generator=generator),
        "vector": torch.randn(211, generator=generator),
        "turned": torch.randn(211, 64, generator=generator).t(),
    }
    save_tensors(tmp_path / "file.safetensors", tensors)
    return tmp_path / "file.safetensors", tensors


def test_products_of_tensors_from_disk_are_those_of_the_ones_that_were_saved(misaligned):
    path, saved = misaligned
    found, _ = load_tensors(path)
    assert torch.equal(found["matrix"] @ found["vector"], saved["matrix"].clone() @ saved["vector"].clone())
    assert torch.equal(found["matrix"].t() @ found["matrix"], saved["matrix"].t() @ saved["matrix"])
    assert torch.equal(found["turned"] @ found["vector"], saved["turned"].contiguous() @ saved["vector"])


def test_memory_is_as_the_allocator_gives_it(misaligned):
    path, _ = misaligned
    found, _ = load_tensors(path)
    for name, tensor in found.items():
        assert tensor.data_ptr() % 64 == torch.empty_like(tensor).data_ptr() % 64, name
        assert tensor.is_contiguous(), name
        assert tensor.untyped_storage().nbytes() == tensor.nbytes, f"{name} holds on to more than itself"


@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_equal_rows_get_equal_answers_wherever_they_lie(count):
    net, recipe = Net(mlp, (37,), seed=1), Recipe(device="cpu")
    net.add_head("task", 3)
    rows = torch.randn(count, 37, generator=torch.Generator().manual_seed(0))
    for shift in range(1, 16):
        room = np.empty(rows.numel() + 16, np.float32)[shift : shift + rows.numel()]
        room[:] = rows.flatten().numpy()
        elsewhere = torch.from_numpy(room).view(count, 37)
        assert torch.equal(probabilities(net, elsewhere, "task", recipe), probabilities(net, rows, "task", recipe))
        assert torch.equal(compute_features(net, elsewhere, recipe), compute_features(net, rows, recipe))


@pytest.mark.parametrize("moment", ["touch", "write_text", "chmod"])
def test_an_interrupt_while_a_file_is_written_leaves_the_one_before_and_nothing_else(tmp_path, monkeypatch, moment):
    save_text(tmp_path / "file", "before")
    act = getattr(Path, moment)

    def interrupted(path, *arguments, **more):
        act(path, *arguments, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, moment, interrupted)
        with pytest.raises(KeyboardInterrupt):
            save_text(tmp_path / "file", "after")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "before")]
