"""Rows that are not of the paper's own experiments: others' published numbers, and every method under one budget."""

from dataclasses import replace

from zoolearn.files import Json
from zoolearn.lab.paper.rows import Row, accuracy_of, paper_b
from zoolearn.lab.presets import find_preset
from zoolearn.lab.published import PRESETS, ZOO
from zoolearn.methods.registry import METHODS
from zoolearn.runs.spec import RunSpec


def list_published() -> tuple[Row, ...]:
    """Every preset that no other table has: the rows of others' papers, by their names and the methods'."""
    rows = []
    for preset in PRESETS:
        if preset.target and (preset.source != ZOO or preset.spec.benchmark == "split-mnist"):
            differs = f"aims at {preset.target} of {preset.source}" + (f"; {preset.remark}" if preset.remark else "")
            number = accuracy_of(float(preset.target.split()[0]))
            rows.append(Row(f"{preset.spec.method} {preset.name}", preset.spec, number, differs, apart=preset.apart))
    return tuple(rows)


def smaller() -> tuple[Row, ...]:
    """Methods whose published runs take days on a CPU, with the budget that was given to them instead."""
    hat: dict[str, Json] = {"backbone": "alexnet-hat", "epochs": 1, "batch_size": 16, "lr": 0.05, "augment": "no"}
    apd = find_preset("apd-2020", "apd", "coarse-cifar100")
    vcl = find_preset("vcl-2018", "vcl", "split-mnist")
    stand_ins: dict[str, tuple[RunSpec, float | None, str, str]] = {
        "hat-alexnet-1-epoch": (
            *(RunSpec("hat", "split-cifar100", hat), None),
            *("HAT's authors train for 200 epochs, on other streams of CIFAR", "epochs, stream"),
        ),
        "progressive-small-conv": (
            *(RunSpec("progressive", "split-cifar100", {"epochs": 1}), 59.2),
            *(
                "small-conv and 20 tasks instead of ResNet18-S and the last 17 (A-GEM, Chaudhry et al., 2019)",
                "net, tasks",
            ),
        ),
        "apd-3-tasks": (
            *(replace(apd.spec, options={**apd.spec.options, "first_tasks": 3}), float(apd.target)),
            *("the first 3 tasks instead of all 20, of which the published number is the mean", "tasks, pictures"),
        ),
        "vcl-1-draw": (
            *(replace(vcl.spec, settings={**vcl.spec.settings, "train_samples": 1}), float(vcl.target)),
            *("one draw of the weights for each row and step instead of ten", "draws"),
        ),
    }
    return tuple(
        Row(name, spec, accuracy_of(number), differs, stands_in_for=spec.method, apart=apart)
        for name, (spec, number, differs, apart) in stand_ins.items()
    )


def every_method() -> tuple[Row, ...]:
    """Split-MNIST by every method: one net, one budget, and what a method steps with is its own.

    That is its default, but for those whose authors took Adam at 1e-3 on MNIST.
    """
    quoted = {"ogd": 98.84, "vcl": 98.4, "frcl": 97.8, "fromp": 99.0, "si": 98.9, "rmn": 99.5, "isolated": 99.98}
    quoted |= {"model-zoo": 99.97, "multi-head": 99.98}
    own: dict[str, dict[str, Json]] = {
        "model-zoo": paper_b("split-mnist"),
        **{method: {"optimizer": "adam", "lr": 1e-3} for method in ("vcl", "frcl", "fromp")},
        **{method: {"lr": 1e-3} for method in ("apd", "fedweit")},  # which step by Adam in any case
    }
    budget: dict[str, Json] = {"backbone": "mlp", "epochs": 3, "batch_size": 64, "augment": "no"}
    rows = []
    for method in METHODS:
        spec = RunSpec(method, "split-mnist", {**budget, **own.get(method, {})})
        rows.append(Row(method, spec, accuracy_of(quoted.get(method)), stands_in_for=method, apart="net, epochs"))
    five = Row("5 isolated nets", RunSpec("isolated", "split-mnist", {**budget, "networks": 5}), accuracy_of(None))
    return (*rows, five)
