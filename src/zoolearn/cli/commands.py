"""Which subcommands there are; light enough to be read before anything heavy is imported."""

import re
import shutil
import textwrap
from typing import NamedTuple


class Command(NamedTuple):
    """A subcommand: how it is called, what it does in a few words, and its module in this package if that has another name."""

    usage: str
    summary: str
    other_module: str = ""

    @property
    def name(self) -> str:
        return self.usage.partition(" ")[0]

    @property
    def module(self) -> str:
        return f"zoolearn.cli.{self.other_module or self.name}"


HEADINGS = {
    "experiments": (
        Command("run METHOD BENCHMARK", "show a benchmark to a learner; the same command again continues"),
        Command("sweep METHOD BENCHMARK", "a run for every combination of some settings, one table of all"),
        Command("tune METHOD BENCHMARK", "search for good settings; the best as a command and as a preset"),
        Command("report DIR...", "one table of many runs, averaged over seeds; --html: a page of figures"),
        Command("plot DIR...", "the same figures as pdf, png or svg files"),
        Command("study KIND BENCHMARK", "the paper's analyses: competition, ablations, transfer exponents"),
        Command("paper [TABLE]", "the paper's tables: run what is missing, its numbers beside ours"),
        Command("judge RUN...", "zoos not told the task, voting otherwise, or distilled"),
        Command("watch DIR...", "follow running folders: progress, loss, accuracy, time left"),
    ),
    "your own zoo": (
        Command("new FOLDER", "an empty zoo for your own tasks, with settings of your choice"),
        Command("learn FOLDER NAME DATA", "teach a zoo a task from images, arrays or tables; makes the zoo"),
        Command("predict FOLDER NAME INPUT...", "ask a zoo; --votes, --csv, --json, --at EPISODE"),
        Command("recognise FOLDER INPUT...", "ask without naming the task; it may be not sure"),
        Command("show FOLDER [NAME]", "what a zoo knows and holds, with a picture; or one task"),
        Command("test FOLDER NAME DATA", "how good its answers are on new labelled data", "testing"),
        Command("compare FOLDER", "a zoo beside other ways to learn its tasks: accuracy and cost"),
        Command("rename FOLDER NAME NEW", "another name for a task"),
        Command("log FOLDER", "what happened to a zoo, and when"),
        Command("verify FOLDER", "compare every file of a zoo with its checksum"),
        Command("correct FOLDER NAME [FILE.csv]", "change labels of stored rows, or delete rows"),
        Command("undo FOLDER", "take the last episode back"),
        Command("forget FOLDER [NAME]", "remove a task permanently, with all that was trained on it"),
        Command("prune FOLDER", "keep the members that each task needs; reversible until --commit"),
        Command("distil FOLDER TO", "one small net that answers like the whole zoo"),
        Command("refeature FOLDER", "the same zoo on the features of another extractor"),
        Command("export FOLDER [NAME]", "one file a task for other programs: onnx or torch"),
        Command("serve FOLDER", "answers over HTTP and a page to look at; --token, --learn"),
    ),
    "about": (
        Command("demo", "grow a zoo on embedded digits beside its reference learners, in a minute or two"),
        Command("list", "the methods, benchmarks and backbones by name", "listing"),
        Command("data", "which data sets are present and whole, and how to get the others"),
    ),
}
COMMANDS = {command.name: command for commands in HEADINGS.values() for command in commands}


def overview() -> str:
    """What `zoo --help` prints."""
    lines = ["usage: zoo COMMAND ...", "", "Continual learning with a growing zoo of small networks.", ""]
    width = 2 + max(len(command.usage) for command in COMMANDS.values())
    for heading, commands in HEADINGS.items():
        lines += [f"{heading}:", *(f"  {command.usage:<{width}}{command.summary}" for command in commands), ""]
    lines += ["`zoo COMMAND --help` explains a command. New here? Try `zoo demo`."]
    return wrap("\n".join(lines), width + 2)


def wrap(text: str, column: int | None = None, hanging: int = 0) -> str:
    """Text that fits the terminal: prose flows, a line with a label or an indent goes on below where its text begins.

    >>> wrap("\\n".join(["One line", "of prose.", "", "lists:  a, b"])).splitlines()
    ['One line of prose.', '', 'lists:  a, b']
    """
    width = min(120, shutil.get_terminal_size().columns)
    lines: list[str] = []
    for line in text.splitlines():
        flows = lines and lines[-1] and line and not _begins(line) and not _begins(lines[-1])
        lines[-1:] = [f"{lines[-1]} {line}"] if flows else [*lines[-1:], line]
    return "\n".join(
        textwrap.fill(
            line,
            width,
            subsequent_indent=" " * (_begins(line, column) or hanging),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines
    )


def _begins(line: str, column: int | None = None) -> int:
    """The column in which the text of a labelled or indented line begins; 0 in prose."""
    found = re.match(r"\w+: +| +", line)
    return 0 if found is None else column or found.end()
