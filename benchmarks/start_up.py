"""How long until something happens: `import zoolearn` beside `import torch`, `zoo --help` beside bare Python."""

import resource
import subprocess
import sys
from statistics import median

from benchmarks.tables import Table

COMMANDS = {
    "python": "pass",
    "zoo --help": "import sys; sys.argv = ['zoo', '--help']; from zoolearn.cli import main; main()",
    "import torch": "import torch",
    "import zoolearn": "import zoolearn",
    "import zoolearn, all public names": "from zoolearn import *",
}


def measure(*, quick: bool) -> list[Table]:
    """Processor seconds of whole processes, in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(2 if quick else 7):
        for name, code in COMMANDS.items():
            seconds[name].append(_processor_seconds(code))
    table = Table("processor seconds of a process", ["what", "seconds", "over import torch", "bar"])
    for name, values in seconds.items():
        over = median(value - torch for value, torch in zip(values, seconds["import torch"], strict=True))
        bar = "at most 0.3 over" if name == "import zoolearn, all public names" else "-"
        table.rows.append([name, median(values), over, bar])
    return [table]


def _processor_seconds(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
