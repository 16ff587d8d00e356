"""Imports point one way, importing touches nothing, and the public names are the ones that are promised."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import zoolearn

ROOT = Path(zoolearn.__file__).parent
GROUND = ("errors", "names", "settings", "seeds", "cores", "files", "locks", "words")  # what every room stands on
ROOMS = (
    "data",
    "nets",
    "training",
    "features",
    "methods",
    "beyond",
    "runs",
    "zoo",
    "lab",
    "cli",
)  # each may import those before it
APART = {("lab", "zoo")}  # two products side by side: neither imports the other
OF_A_ZOO = ("inputs", "disk", "intake", "learning", "answers", "export", "changes", "serve")  # in `zoo`, the same rule
DOORS = ("public", "testing", "__main__")  # they open on every room


@cache
def modules():
    """Every module of the package by its name below it; a package by its own name."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    del found[""]
    return found


@cache
def imports(name):
    """The modules of the package that a module imports anywhere, in functions too."""
    known = modules()
    found = set()
    for node in ast.walk(ast.parse(known[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports by a relative path; write it out"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {path if path.removeprefix("zoolearn.") in known else str(node.module) for path in whole}
    return frozenset(path.removeprefix("zoolearn.") for path in found if path.split(".")[0] == "zoolearn")


@cache
def reached(name):
    """Everything of the package that is imported with a module, except the module itself and its own package."""
    seen, open_ends = set(), [name]
    while open_ends:
        for target in imports(open_ends.pop()):
            if target in modules() and target not in seen:
                seen.add(target)
                open_ends.append(target)
    return frozenset(seen)


def room(name):
    return name.split(".")[0]


def within(tops):
    return sorted(name for name in modules() if room(name) in tops)


def test_every_module_is_in_a_room():
    assert {room(name) for name in modules()} == {*GROUND, *ROOMS, *DOORS}


def test_imports_point_one_way():
    order = {name: place for place, name in enumerate((*GROUND, *ROOMS, *DOORS))}
    wrong = [
        f"{name} imports {target}"
        for name in modules()
        for target in imports(name)
        if room(target) != room(name)
        and (order[room(target)] > order[room(name)] or (room(name), room(target)) in APART)
    ]
    assert wrong == []


def test_imports_within_a_zoo_point_one_way():
    inner = {name: name.split(".")[1] for name in modules() if name.startswith("zoo.") and name.count(".") == 2}
    assert set(inner.values()) == {*OF_A_ZOO}
    order = {name: place for place, name in enumerate(OF_A_ZOO)}
    wrong = [
        f"{name} imports {target}"
        for name in inner
        for target in imports(name) & inner.keys()
        if order[inner[target]] > order[inner[name]]
    ]
    assert wrong == []


def test_every_room_says_what_it_is_for():
    for name in ROOMS:
        explained = ast.get_docstring(ast.parse(modules()[name].read_text(encoding="utf-8"))) or ""
        assert len(explained.splitlines()) >= 4, name


def test_no_module_imports_itself_in_a_circle():
    graph = {name: {target for target in imports(name) if target in modules()} for name in modules()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(graph)


def test_modules_import_each_other_and_not_the_package():
    """`from zoolearn import X` inside the package would load every public name, and go in a circle."""
    assert [name for name in modules() if "zoolearn" in imports(name)] == []


def test_there_is_no_drawer_for_odds_and_ends():
    assert not {"utils", "util", "helpers", "common", "misc"} & {part for name in modules() for part in name.split(".")}


def lines(names):
    return sum(len(modules()[name].read_text(encoding="utf-8").splitlines()) for name in names)


def test_reading_the_papers_method_with_all_that_it_imports_takes_at_most_2500_lines():
    assert lines({"methods.model_zoo", *reached("methods.model_zoo")}) <= 2500
    assert lines({"methods.model_zoo"}) <= 130


def test_benchmarks_import_names_that_there_are():
    """No other test runs them, so that a name that was changed would be missed when somebody measures."""
    missing = []
    for path in sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zoolearn"):
                there = import_module(node.module)
                missing += [
                    f"{path.name}: {node.module}.{name.name}"
                    for name in node.names
                    if not hasattr(there, name.name) and find_spec(f"{node.module}.{name.name}") is None
                ]
    assert missing == []


def test_a_run_brings_one_method_and_no_engine_of_jobs(tmp_path):
    program = (
        "import sys, zoolearn.runs.run; print(*sorted(name for name in sys.modules if name.startswith('zoolearn.')))"
    )
    brought = in_a_fresh_interpreter(program, tmp_path).split()
    assert not [name for name in brought if name.startswith(("zoolearn.runs.jobs", "zoolearn.beyond"))]
    methods = [name.removeprefix("zoolearn.methods.") for name in brought if name.startswith("zoolearn.methods.")]
    assert set(methods) <= {"learner", "registry", "state"}


def in_a_fresh_interpreter(program, folder):
    command = [sys.executable, "-W", "error", "-c", program]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    return answer.stdout


OPTIONAL = (
    "sklearn", "PIL", "rich", "tyro", "matplotlib", "polars", "ray", "fastapi", "scipy", "pandas", "requests", "torchvision",
    "onnx", "onnxruntime", "wordllama",
)  # fmt: skip


def test_importing_zoolearn_and_its_names_touches_nothing(tmp_path):
    program = f"""
import sys, logging, random, os
import numpy, torch
before = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()
handlers, level = list(logging.getLogger().handlers), logging.getLogger().level
there, threads, variables = set(sys.modules), torch.get_num_threads(), dict(os.environ)
written = []
sys.addaudithook(lambda event, arguments: written.append(arguments) if event == "open" and set("wax+") & set(str(arguments[1])) else None)
sys.addaudithook(lambda event, arguments: written.append((event, arguments)) if event in ("socket.connect", "subprocess.Popen", "os.mkdir") else None)
sys.dont_write_bytecode = True
import zoolearn
for name in zoolearn.__all__:
    getattr(zoolearn, name)
assert torch.equal(torch.get_rng_state(), before[0]), "torch's seed"
assert random.getstate() == before[1], "Python's seed"
assert numpy.random.get_state()[1].tolist() == before[2], "numpy's seed"
assert (logging.getLogger().handlers, logging.getLogger().level) == (handlers, level), "the root logger"
assert not [name for name, logger in logging.Logger.manager.loggerDict.items()
            if name.startswith("zoolearn") and getattr(logger, "handlers", [])], "a logger of ours"
assert torch.get_num_threads() == threads, "threads"
assert not torch.cuda.is_initialized(), "a device"
assert dict(os.environ) == variables, "the environment"
assert written == [], written
new = {{name.split(".")[0] for name in set(sys.modules) - there}}
assert not new & set({OPTIONAL!r}), new & set({OPTIONAL!r})
print("untouched")
"""
    assert in_a_fresh_interpreter(program, tmp_path).strip() == "untouched"
    assert list(tmp_path.iterdir()) == []


def test_importing_the_package_alone_waits_for_no_large_library(tmp_path):
    program = "import sys, zoolearn; print(sorted({'torch', 'numpy', 'sklearn', 'rich', 'PIL'} & set(sys.modules)))"
    assert in_a_fresh_interpreter(program, tmp_path).strip() == "[]"


CORE = (*GROUND, "data", "nets", "training", "features", "methods", "beyond", "runs")


@pytest.mark.parametrize("module", within(CORE))
def test_every_module_of_the_core_can_be_imported_first(module):
    """By the imports alone: what a module needs at import is installed with the package itself."""
    tree = ast.parse(modules()[module].read_text(encoding="utf-8"))
    tops = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            tops |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            tops.add(str(node.module).split(".")[0])
    foreign = tops - set(sys.stdlib_module_names) - {"zoolearn"}
    assert foreign <= {"torch", "numpy", "safetensors", "msgspec"}
    assert all(find_spec(top) for top in foreign)


PROMISED = {
    "Benchmark", "Examples", "Task", "Net", "Recipe", "Learner", "Member", "ModelZoo", "Isolated", "Ensemble", "Vote", "WarmStart",
    "MultiHead", "FineTune", "Results", "fit", "run", "episodes", "progress", "load", "accuracy", "boosted", "released", "uniform",
    "average_accuracy", "forgetting", "forward_transfer", "backward_transfer", "METHODS", "BENCHMARKS", "BACKBONES",
    "benchmark", "mlp", "small_conv", "resnet18_s", "wrn_16_4", "ZooError", "DataError", "MissingData", "SettingsError",
    "StoreError", "UnknownTask", "Diverged",
}  # fmt: skip


def test_the_public_names_are_there_and_have_words_of_their_own():
    assert set(zoolearn.__all__) >= PROMISED
    assert len(zoolearn.__all__) == len(set(zoolearn.__all__))
    for name in zoolearn.__all__:
        value = getattr(zoolearn, name)
        if callable(value):
            assert value.__doc__, name
    assert set(zoolearn.__all__) <= set(dir(zoolearn))
    assert callable(zoolearn.run)


def test_a_star_import_hides_no_builtin_and_open_is_there_by_name():
    import builtins

    assert not {*zoolearn.__all__} & {*vars(builtins)}
    assert zoolearn.open is zoolearn.zoo.open
    assert "open" in dir(zoolearn)


def test_every_error_is_one_of_ours():
    from zoolearn import errors

    kinds = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert all(issubclass(kind, errors.ZooError) for kind in kinds)
    assert all(kind.__name__ in errors.__doc__ for kind in kinds)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="zoolearn"):
        _ = zoolearn.no_such_name
