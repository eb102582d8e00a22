"""Draws the pictures of `docs/ideas.md`: python docs/site/pictures.py

Each is one SVG file. Its colours are CSS variables with fallbacks: the site, which puts the files into its pages, gives
the variables the colours of its light or dark scheme; anywhere else a picture is dark on white.
"""

from pathlib import Path
from random import Random

IMAGES = Path(__file__).parents[1] / "images"

STYLE = (
    'text{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}'
    ".bg{fill:var(--pic-bg,#fff)}.ink{fill:var(--pic-ink,#1c2330)}.quiet{fill:var(--pic-quiet,#566072)}"
    ".box{fill:var(--pic-box,#f1f4f9);stroke:var(--pic-edge,#8a97ad)}.free{fill:var(--pic-free,#dfe4ec)}"
    ".line{stroke:var(--pic-quiet,#566072);stroke-width:1.6;fill:none}.tip{fill:var(--pic-quiet,#566072)}"
    ".t0{fill:var(--pic-t0,#2f6db3)}.t1{fill:var(--pic-t1,#d07c1f)}.t2{fill:var(--pic-t2,#2c8a5b)}"
    ".t3{fill:var(--pic-t3,#9a4fa3)}.t4{fill:var(--pic-t4,#b5443c)}.on{fill:#fff}"
)

# Class-IL accuracy in % on each task, after each task:
# esacl run --method METHOD --epochs 10 [--buffer 50 --sparsity 0.8], seed 0
FINETUNE = [[100, 0, 0, 0, 0], [0, 100, 0, 0, 0], [0, 0, 100, 0, 0], [0, 0, 0, 100, 0], [0, 0, 0, 0, 99]]
PRUNED = [[100, 0, 0, 0, 0], [100, 96, 0, 0, 0], [97, 99, 94, 0, 0], [96, 96, 94, 99, 0], [89, 96, 96, 76, 92]]

# executed, sparse, paper, in GFLOP: docs/results/digits-main.md
COSTS = {
    "er": (12.24, 12.24, 6.56),
    "der++": (17.92, 17.92, 6.56),
    "esacl-der++": (17.92, 17.92, 6.56),
    "sparcl-der++": (14.40, 3.36, 1.18),
    "wsn": (6.56, 3.17, 1.47),
}
# by the formula, measured, in %: same place
CAPACITY = {"esacl": (20.0, 22), "packnet": (23.9, 27.5)}


class Picture:
    """An SVG document under construction."""

    def __init__(self, name: str, title: str, width: int, height: int) -> None:
        self.name, self.title, self.width, self.height = name, title, width, height
        self.parts: list[str] = []
        self.rect(0, 0, width, height, "bg", 0)

    def rect(
        self, x: float, y: float, width: float, height: float, kind: str, radius: float = 3, opacity: float = 1
    ) -> None:
        """A box."""
        faint = f' opacity="{opacity:g}"' if opacity < 1 else ""
        box = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"'
        self.parts.append(f'<rect {box} class="{kind}"{faint}/>')

    def text(self, x: float, y: float, words: str, kind: str = "ink", size: float = 13, at: str = "middle") -> None:
        """A line of text; kind "bold" is ink in bold."""
        weight = ' font-weight="600"' if kind == "bold" else ""
        kind = "ink" if kind == "bold" else kind
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{at}" class="{kind}"{weight}>{words}</text>'
        )

    def line(self, *points: tuple[float, float], arrow: bool = False, dashed: bool = False) -> None:
        """A line through points, with a tip where it is an arrow."""
        path = " L".join(f"{x:g} {y:g}" for x, y in points)
        tip = f' marker-end="url(#tip-{self.name})"' if arrow else ""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<path d="M{path}" class="line"{tip}{dash}/>')

    def dot(self, x: float, y: float, kind: str, radius: float = 5) -> None:
        """A point."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" class="{kind}"/>')

    def svg(self) -> str:
        """The document."""
        tip = (
            f'<defs><marker id="tip-{self.name}" markerWidth="9" markerHeight="8" refX="7" refY="4" orient="auto">'
            '<path d="M0 0 L8 4 L0 8 z" class="tip"/></marker></defs>'
        )
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{self.title}"><style>{STYLE}</style>{tip}'
        )
        return "\n".join([head, *self.parts, "</svg>\n"])


def stream() -> Picture:
    """Ten classes, five tasks, an evaluation on all tasks after each."""
    picture = Picture("stream", "A stream of five tasks; after each the network is evaluated on all of them", 720, 210)
    for task in range(5):
        x = 20 + 140 * task
        picture.text(x + 55, 24, f"task {task + 1}", "bold")
        for side in range(2):
            picture.rect(x + 55 * side, 36, 50, 50, f"t{task}", 6)
            picture.text(x + 25 + 55 * side, 69, str(2 * task + side), "on", 22)
        picture.text(x + 53, 108, "learn", "quiet")
        picture.line((x + 53, 114), (x + 53, 134), arrow=True)
        for judged in range(5):
            picture.rect(x + 3 + 21 * judged, 140, 17, 17, f"t{judged}" if judged <= task else "free")
        picture.text(x + 53, 178, "evaluate on all", "quiet")
        if task < 4:
            picture.line((x + 112, 61), (x + 134, 61), arrow=True)
    picture.text(360, 202, "The examples of a task are gone when the next begins.", "quiet", 12.5)
    return picture


def answers() -> Picture:
    """The same logits, read in two ways."""
    picture = Picture("answers", "Task-IL: only the columns of the task compete. Class-IL: all compete", 720, 230)
    heights = [18, 25, 62, 30, 22, 35, 15, 28, 78, 40]
    for panel, (title, told) in enumerate(
        (("Task-IL: “it is of task 2”", True), ("Class-IL: nothing is known", False))
    ):
        left = 20 + 360 * panel
        picture.text(left + 160, 24, title, "bold", 14)
        picture.line((left, 150), (left + 320, 150))
        for column, height in enumerate(heights):
            competes = not told or column // 2 == 1
            picture.rect(left + 4 + 32 * column, 149 - height, 24, height, f"t{column // 2}" if competes else "free")
            picture.text(left + 16 + 32 * column, 168, str(column), "ink" if competes else "quiet", 13)
        answer = 2 if told else 8
        picture.line((left + 16 + 32 * answer, 196), (left + 16 + 32 * answer, 176), arrow=True)
        picture.text(left + 16 + 32 * answer, 212, f"answer: {answer}", "bold")
    picture.text(200, 212, "an image of a 2", "quiet", 12.5, "start")
    return picture


def forgetting() -> Picture:
    """Two accuracy matrices, as measured."""
    picture = Picture(
        "forgetting", "Accuracy on each task after each task: finetune forgets, esacl-der++ keeps", 720, 290
    )
    for panel, (title, matrix) in enumerate((("finetune", FINETUNE), ("esacl-der++", PRUNED))):
        left = 100 + 345 * panel
        picture.text(left + 120, 22, title, "bold", 14)
        for task in range(5):
            picture.text(left + 24 + 48 * task, 46, f"task {task + 1}", "quiet", 12)
        for stage, row in enumerate(matrix):
            if panel == 0:
                picture.text(left - 10, 79 + 44 * stage, f"after task {stage + 1}", "quiet", 12, "end")
            for task, accuracy in enumerate(row):
                x, y = left + 48 * task, 54 + 44 * stage
                picture.rect(x + 2, y + 2, 44, 40, "free", 4)
                if task <= stage:
                    picture.rect(x + 2, y + 2, 44, 40, "t0", 4, accuracy / 100)
                    kind = "on" if accuracy > 50 else "ink"
                    picture.text(x + 24, y + 27, str(accuracy), kind, 14)
    return picture


def polytope() -> Picture:
    """One step of Frank-Wolfe for two weights, one of which may be large."""
    picture = Picture("polytope", "A Frank-Wolfe step moves towards a vertex; the weight not chosen shrinks", 720, 300)
    x, y, size = 175, 150, 120
    corners = [(x + size, y), (x, y - size), (x - size, y), (x, y + size)]
    picture.parts.append(
        '<polygon points="' + " ".join(f"{a:g},{b:g}" for a, b in corners) + '" class="box" stroke-width="1.5"/>'
    )
    picture.line((x - 155, y), (x + 165, y), arrow=True)
    picture.line((x, y + 140), (x, y - 138), arrow=True)
    picture.text(x + 165, y + 20, "weight 1", "quiet", 12, "end")
    picture.text(x + 12, 22, "weight 2", "quiet", 12, "start")
    theta, vertex = (x + 25, y - 62), (x + size, y)
    after = tuple(t + 0.45 * (v - t) for t, v in zip(theta, vertex, strict=True))
    picture.line(theta, vertex, dashed=True)
    picture.line(theta, after, arrow=True)
    for point, kind in ((theta, "t0"), (vertex, "t1")):
        picture.dot(*point, kind, 6)
    picture.text(theta[0] - 12, theta[1] + 4, "θ", "bold", 15, "end")
    picture.text(vertex[0] + 6, y - 12, "v", "bold", 15, "start")
    lines = [
        ("The polytope C(K, τ), here K = 1 of 2", "bold"),
        ("Its corners have K entries ±τ, and else zeros.", "quiet"),
        ("v: the corner that goes down most", "bold"),
        ("At the K largest entries of the momentum, against it.", "quiet"),
        ("θ ← θ + η (v − θ)", "bold"),
        ("Chosen weights go to ±τ, all others shrink by 1 − η:", "quiet"),
        ("few are large, many near zero. Those can be cut off.", "quiet"),
    ]
    for row, (words, kind) in enumerate(lines):
        picture.text(375, 84 + 23 * row + 8 * (row > 1) + 8 * (row > 3), words, kind, 12, "start")
    return picture


def weights() -> Picture:
    """The weights of a layer through two tasks: train, prune and freeze, expand, train, prune and freeze."""
    picture = Picture(
        "weights", "A layer through two tasks: trained, pruned and frozen, expanded, trained, pruned", 720, 420
    )
    chance = Random(7)
    count, first, second = 28, {3, 9, 16, 22}, {6, 12, 19, 25}
    small = [[chance.uniform(3, 16) for _ in range(count)] for _ in range(4)]
    tall = [chance.uniform(34, 50) for _ in range(count)]
    rows = [
        ("task 1, trained", "few large weights, many small", small[0], first, set()),
        ("pruned, frozen", "the quota is kept; the rest is 0", None, set(), first),
        ("task 2 starts", "free weights begin anew", small[1], set(), first),
        ("task 2, trained", "old weights have not moved", small[2], second, first),
        ("pruned, frozen", "evaluated and saved like this", None, set(), first | second),
    ]
    for row, (title, note, low, large, kept) in enumerate(rows):
        base = 70 + 80 * row
        picture.text(20, base - 22, title, "bold", 14, "start")
        picture.text(20, base - 4, note, "quiet", 12, "start")
        picture.line((240, base + 2), (702, base + 2))
        for place in range(count):
            kind, height = "free", low[place] if low else 0.0
            if place in large or place in kept:
                kind, height = ("t0" if place in first else "t1"), tall[place]
            if height:
                picture.rect(244 + 16.3 * place, base + 1 - height, 11, height, kind, 2)
    return picture


def costs() -> Picture:
    """Three countings of what training cost, as measured on the digits."""
    picture = Picture("costs", "Training cost of five methods in three countings: executed, sparse, paper", 720, 330)
    for kind, (name, note) in enumerate(
        (("executed", "what the hardware did"), ("sparse", "credit for zeros"), ("paper", "the paper's formula"))
    ):
        picture.rect((20, 270, 460)[kind], 10, 12, 12, f"t{kind}")
        picture.text((38, 288, 478)[kind], 21, f"{name}: {note}", "ink", 12.5, "start")
    for row, (method, figures) in enumerate(COSTS.items()):
        top = 40 + 58 * row
        picture.text(118, top + 27, method, "bold", 13, "end")
        for kind, figure in enumerate(figures):
            picture.rect(130, top + 15 * kind, 28 * figure, 12, f"t{kind}", 2)
            picture.text(136 + 28 * figure, top + 10.5 + 15 * kind, f"{figure:.2f}", "quiet", 11.5, "start")
    picture.text(690, 322, "GFLOP, split digits, 10 epochs a task", "quiet", 12, "end")
    return picture


def capacity() -> Picture:
    """Capacity by the formula and measured, against a dense network."""
    picture = Picture("capacity", "Capacity of a dense network, of esacl and of packnet", 720, 175)
    rows = [("dense", 100.0, "", "free", 10)]
    for method, (formula, measured) in CAPACITY.items():
        kind = "t0" if method == "esacl" else "t1"
        rows += [(method, formula, "by the formula", kind, 0), ("", measured, "measured", kind, 10)]
    top = 16.0
    for name, share, note, kind, gap in rows:
        if name:
            picture.text(88, top + 15, name, "bold", 13, "end")
        picture.rect(100, top, 5.4 * share, 20, kind, 3)
        label = f"{share:g} %" + (f", {note}" if note else " of the weights")
        if share > 90:
            picture.text(112, top + 14.5, label, "ink", 12.5, "start")
        else:
            picture.text(108 + 5.4 * share, top + 14.5, label, "quiet", 12.5, "start")
        top += 22 + gap
    return picture


def tree() -> Picture:
    """A trunk, and a branch of channels for each task, while the third is learnt."""
    picture = Picture("tree", "A growing network in its third task: a trunk, three branches, a head", 720, 250)
    picture.rect(14, 95, 70, 60, "box")
    picture.text(49, 129, "image")
    for stage, name in enumerate(("stage 1", "stage 2")):
        picture.line((84 + 115 * stage, 125), (104 + 115 * stage, 125), arrow=True)
        picture.rect(108 + 115 * stage, 60, 91, 130, "t0")
        picture.text(153.5 + 115 * stage, 130, name, "on")
    picture.text(211, 210, "trunk: learnt in task 1,", "quiet", 12)
    picture.text(211, 226, "then only read", "quiet", 12)
    for task, note in enumerate(("done", "done", "learns", "to come", "to come")):
        top, begun = 12 + 47 * task, task < 3
        picture.line((314, 125), (352, top + 18), arrow=begun, dashed=not begun)
        for stage in range(2):
            picture.rect(356 + 110 * stage, top, 85, 36, f"t{task}" if begun else "free")
            picture.text(398.5 + 110 * stage, top + 23, f"stage {stage + 3}", "on" if begun else "quiet")
        picture.line((441, top + 18), (462, top + 18), arrow=begun, dashed=not begun)
        picture.line((551, top + 18), (584, top + 18), arrow=begun, dashed=not begun)
        picture.rect(588, top, 40, 36, f"t{task}" if begun else "free")
        picture.text(608, top + 23, f"{2 * task}, {2 * task + 1}", "on" if begun else "quiet", 12)
        picture.text(638, top + 23, note, "bold" if note == "learns" else "quiet", 12, "start")
    return picture


PICTURES = (stream, answers, forgetting, polytope, weights, costs, capacity, tree)


def drawn() -> dict[Path, str]:
    """Every picture: where it belongs, and what it looks like."""
    pictures = [draw() for draw in PICTURES]
    return {IMAGES / f"{picture.name}.svg": picture.svg() for picture in pictures}


if __name__ == "__main__":
    for path, text in drawn().items():
        path.write_text(text, encoding="utf-8")
