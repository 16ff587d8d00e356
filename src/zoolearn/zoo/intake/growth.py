"""What rows would add to a known task, checked before anything is learned: a typo must not become a class."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from shlex import join
from typing import Literal
from unicodedata import name as unicode_name
from unicodedata import normalize

from zoolearn.errors import DataError
from zoolearn.words import JOINERS, plural, some
from zoolearn.zoo.disk.arrivals import TaskEntry
from zoolearn.zoo.inputs.folders import natural
from zoolearn.zoo.intake.naming import check_ends

MOST_NAMED = 10
SHORTEST = 4  # letters of a name in which one other letter may be a typo: cat and rat are two animals

NewClasses = Collection[str] | Literal["any"]  # announced classes; any: all that do not resemble a known one


@dataclass(frozen=True)
class Growth:
    """More rows of known classes of a task, and rows of new classes.

    >>> growth = Growth("garden", {"heron": 40}, {"kestrel": 25}, {})
    >>> str(growth)
    'garden: 40 more heron, 1 new class kestrel with 25 rows'
    >>> growth.check(["kestrel"])
    >>> growth.check(())
    Traceback (most recent call last):
    zoolearn.errors.DataError: garden: 40 more heron, 1 new class kestrel with 25 rows; announce what is meant to be new: \
--new-class kestrel (new_classes=['kestrel'])
    """

    task: str
    more: Mapping[str, int]
    new: Mapping[str, int]
    typos: Mapping[str, str]  # new classes, and the known one that each is nearly named like

    @classmethod
    def of(cls, entry: TaskEntry, labels: Sequence[str]) -> "Growth":
        """What rows with these labels add to a task."""
        counts = Counter(labels)
        known = [name for name in entry.classes if counts[name]]
        new = sorted(counts.keys() - {*entry.classes}, key=natural)
        for name in new:
            check_ends("class", name)
        near = {name: other for name in new if (other := find_similar(name, entry.classes)) is not None}
        return cls(entry.name, {name: counts[name] for name in known}, {name: counts[name] for name in new}, near)

    def __str__(self) -> str:
        words = [f"{count:,} more {name}" for name, count in self.more.items()]
        new = [f"{name} with {plural(count, 'row')}" for name, count in self.new.items()]
        parts = [some(words)] if words else []
        if new:
            parts += [f"1 new class {new[0]}" if len(new) == 1 else f"{len(new)} new classes: {some(new)}"]
        return f"{self.task}: {', '.join(parts)}"

    def unannounced(self, announced: NewClasses) -> list[str]:
        """New classes that were not announced; "any" does not announce one that may be a typo."""
        if announced == "any":
            return list(self.typos)
        return [name for name in self.new if name not in announced]

    def doubts(self) -> list[str]:
        """A sentence for each new class whose name resembles a known one, and one for those that resemble each other."""
        known = [f"{name!r} is nearly {other!r}, which is known: a typo?" for name, other in self.typos.items()]
        return [*known, *note_similar([*self.new])]

    def check(self, announced: NewClasses) -> None:
        """Raises on a new class that was not announced, and on an announced one without rows; a text is one name."""
        announced = [announced] if isinstance(announced, str) and announced != "any" else announced
        self.check_rows(announced)
        names = self.unannounced(announced)
        if names:
            any_other = len(names) > MOST_NAMED and not self.typos
            how = (
                "--yes (new_classes='any')" if any_other else f"{join(['--new-class', *names])} (new_classes={names!r})"
            )
            raise DataError(f"{'; '.join([str(self), *self.doubts()])}; announce what is meant to be new: {how}")

    def check_rows(self, announced: NewClasses) -> None:
        """Raises on an announced class without rows, or that is known already."""
        missing = [name for name in announced if name not in self.new] if announced != "any" else []
        if missing:
            near = get_close_matches(missing[0], [name for name in self.new if name not in announced], n=1)
            why = "is known already" if missing[0] in self.more else "has no row"
            guess = f"; did you mean {near[0]!r}?" if near else ""
            raise DataError(f"{self}; class {missing[0]!r} was announced as new, but {why}{guess}")


def find_similar(name: str, known: Collection[str]) -> str | None:
    """The known name that this one may be a typo of: it differs by case, spaces, width, script or one letter.

    >>> find_similar("Heron", ["heron"]), find_similar("herron", ["heron"]), find_similar("rat", ["cat"]), find_similar("class 2", ["class 1"])
    ('heron', 'heron', None, None)
    """
    return next((other for other in known if _are_alike(_bare(name), _bare(other))), None)


def note_similar(names: Sequence[str]) -> list[str]:
    """A sentence about new names of which one may be a typo of the other, if there are such."""
    pairs = list[str]()
    seen = dict[str, list[str]]()  # names, by what is left of them without one letter: only those can be alike
    for name in names:
        bare = _bare(name)
        forms = dict.fromkeys([bare, *(bare[:place] + bare[place + 1 :] for place in range(len(bare)))])
        other = find_similar(name, [near for form in forms for near in seen.get(form, ())])
        pairs += [] if other is None else [f"{other!r} and {name!r}"]
        for form in forms:
            seen.setdefault(form, []).append(name)
    return [f"some new names are nearly alike: {some(pairs)}; a typo?"] if pairs else []


def _bare(name: str) -> str:
    return "".join(letter for letter in normalize("NFKC", name).casefold() if letter not in f" _-{JOINERS}")


def _are_alike(one: str, other: str) -> bool:
    if one == other or _mixes_scripts(one, other):
        return True
    short, long = sorted((one, other), key=len)
    if len(short) < SHORTEST or len(long) > len(short) + 1:
        return False
    start = next((place for place, letter in enumerate(short) if letter != long[place]), len(short))
    if len(short) < len(long):
        return short[start:] == long[start + 1 :] and not long[start].isdigit()
    swapped = short[start : start + 2] == long[start : start + 2][::-1]
    rest = start + (2 if swapped else 1)
    return short[rest:] == long[rest:] and not (short[start].isdigit() or long[start].isdigit())


def _mixes_scripts(one: str, other: str) -> bool:
    """Whether names differ only by letters of other scripts, which may look the same, and share letters too."""
    if len(one) != len(other) or not any(
        letter == near and letter.isalpha() for letter, near in zip(one, other, strict=True)
    ):
        return False
    return all(letter == near or _script(letter) != _script(near) for letter, near in zip(one, other, strict=True))


def _script(letter: str) -> str:
    """The first word of its Unicode name, as LATIN or CYRILLIC; nothing for what is no letter."""
    return unicode_name(letter, "").partition(" ")[0] if letter.isalpha() else ""
