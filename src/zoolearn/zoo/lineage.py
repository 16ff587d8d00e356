"""Who descends from whom: members that began with the backbone of others carry what those had learned."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from zoolearn.zoo.index import MemberEntry


def heritage(parents: Iterable[int], members: Iterable[MemberEntry]) -> tuple[str, ...]:
    """The tasks that shaped these parents: what they were trained on, and what they began with."""
    by_number = {member.number: member for member in members}
    tasks = [name for number in parents for name in (*by_number[number].heritage, *by_number[number].tasks)]
    return tuple(dict.fromkeys(tasks))


def living(parents: Sequence[int], gone: Mapping[int, Sequence[int]]) -> tuple[int, ...]:
    """The parents that are still there; one that is gone is replaced by the parents that it had itself.

    >>> living((3, 1), {3: (2,), 2: (1,)})
    (1,)
    """
    found: list[int] = []
    for number in parents:
        found += living(gone[number], gone) if number in gone else [number]
    return tuple(dict.fromkeys(found))


def without(members: Iterable[MemberEntry], gone: Collection[int]) -> tuple[MemberEntry, ...]:
    """The other members, as heirs of the nearest ancestors that are left; what shaped them stays recorded."""
    members = list(members)
    parents = {member.number: member.parents for member in members if member.number in gone}
    return tuple(
        replace(member, parents=living(member.parents, parents)) for member in members if member.number not in gone
    )


def drawn(members: Sequence[MemberEntry]) -> list[str]:
    """Who began with whom: a line a chain of heirs; one that leaves another chain begins with the member it leaves.

    >>> from types import SimpleNamespace as Entry
    >>> parents = {1: (), 2: (1,), 3: (1,), 4: (2,), 5: (3, 4)}
    >>> drawn([Entry(number=number, parents=those) for number, those in parents.items()])
    ['1 → 2 → 4', '1 → 3', '3 + 4 → 5']
    """
    chains: list[list[str]] = []
    ends: dict[int, list[str]] = {}  # the chain that a member is the last of
    for member in members:
        chain = ends.pop(member.parents[0], None) if len(member.parents) == 1 else None
        if chain is None:
            chain = [" + ".join(map(str, member.parents))] if member.parents else []
            chains.append(chain)
        chain.append(str(member.number))
        ends[member.number] = chain
    return [" → ".join(chain) for chain in chains]
