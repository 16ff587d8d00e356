"""The folders of people's own code, on the path of imports."""

import sys

_folders: list[str] = []


def folders() -> list[str]:
    """The folders of code that was named in this process: workers look there too."""
    return [*_folders]


def add_folders(more: list[str]) -> None:
    """Lets modules be imported from these folders, before others, as Python does with the folder of a script."""
    for folder in more:
        if folder not in _folders:
            _folders.append(folder)
            sys.path.insert(0, folder)
