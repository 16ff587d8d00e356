"""Every error that zoolearn raises for a caller's mistake or a damaged file.

ZooError
├── DataError        a task, an array or a data set that cannot be used as it is
│   └── MissingData  files of a data set are not there; says which, and where to put them
├── SettingsError    a setting with an impossible value, or one that differs from a run's record
├── UnknownTask      a task that the learner has not met
├── StoreError       a file or folder that is damaged, foreign, newer, or cannot be written
│   └── InUse        a folder that another process is writing to
├── WorkerDied       a worker process ended unexpectedly
└── Diverged         training produced a loss that is not a finite number

Each message names the thing, the value and the way out.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class ZooError(Exception):
    """Base of all errors of this package."""


class DataError(ZooError):
    """A task, an array or a data set that cannot be used as it is."""


class MissingData(DataError):
    """Files of a data set are not where they were looked for."""


class SettingsError(ZooError):
    """A setting with an impossible value, or one that differs from the record."""


class UnknownTask(ZooError):
    """A task that the learner has not met."""


class StoreError(ZooError):
    """A file or folder that is damaged, foreign, newer than this version, or cannot be written."""


class InUse(StoreError):
    """A folder that another process is writing to."""


class WorkerDied(ZooError):
    """A worker process ended unexpectedly."""


class Diverged(ZooError):
    """Training produced a loss that is not a finite number."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that is not known: a guess, then the choices.

    >>> unknown_name("method", "Zoo", ["model-zoo", "isolated"])
    "unknown method 'Zoo'; did you mean 'model-zoo'? (one of: isolated, model-zoo)"
    """
    names = sorted(known)
    if not names:
        return f"unknown {kind} {name!r}; there is none"
    wanted, folded = name.casefold(), {other.casefold(): other for other in names}
    near = get_close_matches(wanted, folded, n=1) or [other for other in folded if len(wanted) > 2 and wanted in other]
    close = [folded[other] for other in near[:1]]
    guess = f"; did you mean {close[0]!r}?" if close else ""
    listed = sorted({*names[:30], *close})
    more = f", and {len(names) - len(listed)} more" if len(names) > len(listed) else ""
    return f"unknown {kind} {name!r}{guess} (one of: {', '.join(listed)}{more})"
