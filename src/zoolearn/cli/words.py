"""Words that depend on a number."""


def plural(count: int, word: str, words: str | None = None) -> str:
    """A number with its word.

    >>> plural(1, "member"), plural(2_000, "class", "classes")
    ('1 member', '2,000 classes')
    """
    return f"{count:,} {word if count == 1 else words or word + 's'}"
