"""Rows that go through nets, counted where they do: what training and answers cost, whatever the method."""

from collections import Counter
from threading import local


class Passed(local):
    """The rows of this thread so far: `trained` on, or `asked` about."""

    def __init__(self) -> None:
        self.rows = Counter[str]()


passed = Passed()
