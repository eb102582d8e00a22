"""Huffman coding as the textbook tells it: a tree of nested pairs, codes read off its branches."""


def codes(symbols: list[int]) -> dict[int, str]:
    """A code word for each symbol."""
    forest: list[tuple[int, object]] = [(symbols.count(symbol), symbol) for symbol in sorted(set(symbols))]
    while len(forest) > 1:
        forest.sort(key=lambda tree: tree[0])
        (few, one), (more, other), *forest = forest
        forest.append((few + more, (one, other)))
    words: dict[int, str] = {}

    def walk(tree: object, word: str) -> None:
        if isinstance(tree, tuple):
            walk(tree[0], word + "0")
            walk(tree[1], word + "1")
        else:
            assert isinstance(tree, int)
            words[tree] = word or "0"

    if forest:
        walk(forest[0][1], "")
    return words


def coded_length(mask: list[bool], width: int) -> int:
    """Bits of a mask that is coded `width` entries at a time."""
    padded = mask + [False] * (-len(mask) % width)
    portions = [padded[start : start + width] for start in range(0, len(padded), width)]
    symbols = [sum(bit << place for place, bit in enumerate(portion)) for portion in portions]
    words = codes(symbols)
    return sum(len(words[symbol]) for symbol in symbols)
