"""How the training loss went down, task after task."""

from itertools import groupby
from math import isfinite, nan
from typing import Any

from esacl.report.figures.axes import level_axis, ticks
from esacl.report.figures.chart import Chart, Key
from esacl.report.figures.svg import FG, GRID, MUTED, WIDTH, canvas, house_style, shade
from esacl.report.record import RunRecord

_DASHES = ("-", (0, (3, 2)), (0, (1, 1.5)))


@house_style()
def training_loss(record: RunRecord) -> Chart:
    """Mean loss of every epoch, with a band for each task."""
    log, phases = record.log, list(dict.fromkeys(epoch.phase for epoch in record.log))
    finite = [epoch.loss for epoch in log if isfinite(epoch.loss)]
    top = 1.15 * max(finite, default=1.0) or 1.0
    figure, axes = canvas(WIDTH, 300)
    done = 0
    for (task, phase), members in groupby(log, key=lambda epoch: (epoch.task, epoch.phase)):
        losses = [epoch.loss if isfinite(epoch.loss) else nan for epoch in members]
        dash = _DASHES[phases.index(phase) % len(_DASHES)]
        style: dict[str, Any] = {"color": shade(task, record.tasks), "linewidth": 1.8, "linestyle": dash}
        marker = "o" if len(losses) <= 2 else ""  # a short phase would not show as a line
        axes.plot(range(done + 1, done + 1 + len(losses)), losses, marker=marker, markersize=4, **style)
        done += len(losses)
    start, spans = 0, [(task, len(list(members))) for task, members in groupby(log, key=lambda epoch: epoch.task)]
    every = -(-len(spans) // 20)
    for place, (task, length) in enumerate(spans):
        if place % 2:
            axes.axvspan(start + 0.5, start + length + 0.5, facecolor=GRID, alpha=0.35, linewidth=0)
        if place % every == 0 and not record.joint:
            name = f"task {task + 1}" if len(spans) <= 6 else str(task + 1)
            axes.text(start + 0.5 + length / 2, 0.98 * top, name, color=MUTED, fontsize=12.5, ha="center", va="top")
        start += length
    axes.set(xlim=(0.5, done + 0.5), ylim=(min(0.0, *finite, 0.0), top), xlabel="epoch")
    axes.xaxis.set_major_locator(ticks(8, integer=True))
    axes.yaxis.set_major_locator(ticks(6))
    level_axis(axes, "loss")
    label = f"Training loss of {record.method}, seed {record.seed}, over {done} epochs"
    label += f"; last value {finite[-1]:.3g}." if finite else "."
    diverged = len(log) - len(finite)
    caption = "Mean of what was minimised in each epoch: replay and penalties included."
    if diverged:
        caption += f" {diverged} of {len(log)} epochs have no finite loss: training diverged there."
    keys = tuple(Key(phase, FG, dashed=bool(place)) for place, phase in enumerate(phases))
    return Chart("Training loss", "loss", figure, axes, label, caption, keys if len(keys) > 1 else ())
