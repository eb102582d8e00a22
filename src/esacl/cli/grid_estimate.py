"""What `esacl grid --dry-run` prints: FLOPs and hours of the runs that are left."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from esacl.errors import EsaclError
from esacl.grid.estimate import executed_flops, step_speed
from esacl.grid.plan import Cell
from esacl.report.units import DASH, flops, seconds


def estimate_table(cells: Sequence[Cell], tflops: float | None) -> Table:
    """A line for each row with runs to do, and their sum; one that cannot be foreseen has a dash and does not count."""
    table = Table(title="Estimated cost of what is left", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("row", overflow="fold")
    for heading in ("runs", "FLOPs", "here", *([] if tflops is None else [f"at {tflops:g} TFLOPS"])):
        table.add_column(heading, justify="right", no_wrap=True)
    speeds: dict[object, float] = {}
    all_flops, all_seconds = 0.0, 0.0
    for point in {id(cell.point): cell.point for cell in cells}.values():
        runs, config = sum(cell.point is point for cell in cells), point.config(seed=0)
        try:
            cost = runs * executed_flops(config)
            net = (config.method, config.net, config.stream.name, config.train.batch_size)
            speeds[net] = speeds.get(net) or step_speed(config)
        except EsaclError:
            table.add_row(Text(point.label), str(runs), DASH, DASH, *([] if tflops is None else [DASH]))
            continue
        table.add_row(Text(point.label), str(runs), *_words(cost, cost / speeds[net], tflops))
        all_flops, all_seconds = all_flops + cost, all_seconds + cost / speeds[net]
    table.add_section()
    table.add_row("all", str(len(cells)), *_words(all_flops, all_seconds, tflops))
    return table


def _words(cost: float, here: float, tflops: float | None) -> list[str]:
    return [flops(cost), seconds(here), *([] if tflops is None else [seconds(cost / (tflops * 1e12))])]
