"""Words that depend on a number."""


def counted(count: int, word: str, words: str | None = None) -> str:
    """A number with its word.

    >>> counted(1, "member"), counted(2_000, "class", "classes")
    ('1 member', '2,000 classes')
    """
    return f"{count:,} {word if count == 1 else words or word + 's'}"
