"""What a pickle would do, read from its operations before anything loads it."""

import pickletools
from collections.abc import Collection
from pickle import UnpicklingError
from typing import IO

MOST_OPERATIONS = 2_000_000
"""The largest official file of CIFAR has an eighth of them, a network of a thousand tensors a fiftieth."""

MOST_HASHED = 10_000_000
"""Parts of tuples that are used again; hashing as many takes a second."""

MOST_NESTED = 100
"""Tuples in tuples: Python hashes them on the stack of the process, which ends at some tens of thousands."""

_Tuple = tuple[int, int]
_SINGLE: _Tuple = (1, 0)  # parts and depth of what is no tuple


class Refused(Exception):
    """Something in the pickle that an honest file does not need."""


def check_operations(pickle: bytes | IO[bytes], useless: Collection[str] = ()) -> None:
    """Refuse what would take memory or time without end.

    Unpicklers reserve memory up to the largest memo number; an honest one counts its entries. A tuple from the memo
    can be put into the next one twice, and so on: as a key of a dictionary, its hash would never be done.
    """
    try:
        _follow(pickle, useless)
    except IndexError:
        raise UnpicklingError("it takes more off the stack than there is") from None


def _follow(pickle: bytes | IO[bytes], useless: Collection[str]) -> None:
    """How large the tuples on the stack and in the memo become."""
    stack: list[_Tuple | None] = []  # None: a mark
    memo: dict[int, _Tuple] = {}
    hashed = 0
    for count, (operation, argument, _) in enumerate(pickletools.genops(pickle)):
        name = operation.name
        if name in useless:
            raise Refused(f"the operation {name} was refused")
        if count > MOST_OPERATIONS:
            raise Refused(f"it has over {MOST_OPERATIONS} steps")
        if name.endswith("PUT") or name == "MEMOIZE":
            number = len(memo) if argument is None else int(argument)
            if number > count:
                raise Refused(f"memo number {number} was refused")
            memo[number] = stack[-1] or _SINGLE
        elif name.endswith("GET") and argument is not None:
            again = memo.get(int(argument), _SINGLE)  # what is missing is for the unpickler to miss
            stack.append(again)
            hashed += again[0]
            if hashed > MOST_HASHED:
                raise Refused("a tuple that is used again and again was refused")
        else:
            taken = _taken(operation, stack)
            if name.startswith("TUPLE"):
                depth = 1 + max((depth for _, depth in taken), default=0)
                if depth > MOST_NESTED:
                    raise Refused(f"tuples in one another, over {MOST_NESTED} deep, were refused")
                stack.append((1 + sum(parts for parts, _ in taken), depth))
            else:
                stack += [None if each is pickletools.markobject else _SINGLE for each in operation.stack_after]


def _taken(operation: pickletools.OpcodeInfo, stack: list[_Tuple | None]) -> list[_Tuple]:
    """What an operation takes off the stack: the last of it, down to a mark where it needs one."""
    below, taken = len(operation.stack_before), list[_Tuple]()
    if pickletools.markobject in operation.stack_before:
        below = operation.stack_before.index(pickletools.markobject)
        while (top := stack.pop()) is not None:
            taken.append(top)
    return taken + [stack.pop() or _SINGLE for _ in range(below)]
