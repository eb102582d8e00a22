"""Damage to values: settings, results, states and headers, as trees of tables, lists and plain values."""

import json
from random import Random
from typing import Any

import tomli_w

DEEP, HUGE, SAME = "@deep@", "@huge@", "@same@"
"""Values that no writer writes: they are put into the text afterwards."""

TEXTS = {DEEP: "[" * 5000 + "]" * 5000, HUGE: "9" * 5000}

POISON: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 255, 10**6, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**30, HUGE, DEEP,
    0.0, -0.0, 0.5, 1e-300, 1e308, -1e308, float("inf"), float("-inf"), float("nan"),
    "", " ", "1", "nan", "\0", "a\0b", "\n", "é", "\u202e", "\ud800", "\x1b[31m", "[red]x[/red]", "x" * 5000,
    "..", "../outside", "../../outside/kept", "/", "/etc/passwd", "~", "~nobody-of-that-name/x",
    "folder:.", "-", "--help",
    "canary:build", "canary.py:build", "os:system", "cuda", "meta", "mps", "cpu:7", "bf16", "none", "mlp", "er",
    [], {}, [[]], [None], [0], [1, 2], ["a"], {"": 0}, {"a": {"b": 1}}, [float("nan")], list(range(300)),
)  # fmt: skip


def poison(rng: Random) -> Any:
    """A value that is seldom right."""
    return _copy(rng.choice(POISON))  # the next case finds it as it was


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a tree, of the tree itself first."""
    found = [path]
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        found += places(value, (*path, key))
    return found


def damage(rng: Random, tree: Any) -> tuple[Any, str]:
    """A copy of a tree with one to three changes, and what they are."""
    told = []
    tree = _copy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        tree, what = _one(rng, tree)
        told.append(what)
    return tree, ", ".join(told)


def _one(rng: Random, tree: Any) -> tuple[Any, str]:
    found = places(tree)
    path = rng.choice(found[1:] or found)
    if rng.random() < 0.02 or not path:
        value = poison(rng)
        return value, f"everything = {_short(value)}"
    above = tree
    for key in path[:-1]:
        above = above[key]
    last, where = path[-1], ".".join(map(str, path))[:80]
    way = rng.randrange(10)
    if way == 0:
        del above[last]
        return tree, f"{where} removed"
    if way == 1 and isinstance(above, dict):
        name = rng.choice(("", "strange", "\0", "__class__", "x" * 300, last.upper() if isinstance(last, str) else "n"))
        above[name] = above.pop(last)
        return tree, f"{where} renamed {_short(name)}"
    if way == 2:
        value = _copy(_at(tree, rng.choice(found[1:])))
        above[last] = value
        return tree, f"{where} = {_short(value)}, of another place"
    if way == 3 and isinstance(above, list):
        above[last:last] = [_copy(above[last])] * rng.choice((1, 2, 100))
        return tree, f"{where} repeated"
    if way == 4:
        above[last] = rng.choice(([above[last]], {"x": above[last]}, str(above[last])))
        return tree, f"{where} wrapped: {_short(above[last])}"
    if way == 5 and isinstance(above[last], int | float) and not isinstance(above[last], bool):
        above[last] = rng.choice(
            (-above[last], above[last] + 1, above[last] * 1000, above[last] - 1, float(above[last]))
        )
    elif way == 6 and isinstance(above, dict):
        name = rng.choice(("strange", "method", "seed", "format", "net", "options", "schema"))
        above[name] = poison(rng)
        return tree, f"{where} beside it {name} = {_short(above[name])}"
    else:
        above[last] = poison(rng)
    return tree, f"{where} = {_short(above[last])}"


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _copy(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _copy(value) for key, value in tree.items()}
    return [_copy(value) for value in tree] if isinstance(tree, list | tuple) else tree


def _short(value: Any) -> str:
    text = ascii(value)
    return text if len(text) < 60 else f"{text[:57]}..."


def as_json(tree: Any) -> str:
    """A tree as JSON, with the values that no writer writes."""
    return _filled(json.dumps(tree))


def as_toml(tree: Any) -> bytes:
    """A tree as TOML; what TOML has no word for is written as text."""
    if not isinstance(tree, dict):
        return as_json(tree).encode("utf-8", "surrogatepass")
    return _filled(tomli_w.dumps(_tomlable(tree))).encode("utf-8", "surrogatepass")


def _tomlable(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {str(key): _tomlable(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_tomlable(value) for value in tree]
    return "none" if tree is None else tree


def _filled(text: str) -> str:
    for name, value in TEXTS.items():
        text = text.replace(f'"{name}"', value)
    return text
