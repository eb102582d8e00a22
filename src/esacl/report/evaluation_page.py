"""The page about how good a model is: what `esacl evaluate` found, with pictures and the worst mistakes."""

from base64 import b64encode
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from torch import Tensor

from esacl.metrics.evaluation import Evaluation, Mistake
from esacl.report.html import filled, write_html
from esacl.report.run_page import Card
from esacl.report.units import clean, percent

if TYPE_CHECKING:
    from esacl.report.figures.chart import Chart

SMALL = 64  # pixels up to which a picture is kept bit for bit
LARGE = 96  # pixels of the others
LISTED = 20  # files, and pairs of classes
MEANINGS = {
    "Accuracy": "Share of the images that are answered rightly. The interval says how far other images of the same "
    "kind may lead.",
    "Precision": "Of the answers with this class, how many are right.",
    "Recall": "Of the images of this class, how many are answered rightly.",
    "Calibration error (ECE)": "How far confidence and accuracy are apart, on average over the answers. A temperature "
    "divides the logits: above 1 it makes answers less sure, and it never changes which class is answered.",
    "Held out": "Images that `esacl learn` keeps with the model and never trains on.",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A mistake with its picture, where there is one."""

    mistake: Mistake
    name: str
    picture: str  # a data URI; empty for none


def write_evaluation(found: Evaluation, out: Path) -> Path:
    """Write the page; an existing file is replaced at once."""
    return write_html(render(found), out, "Choose another place with `esacl evaluate MODEL DATA -o FILE`.")


def render(found: Evaluation) -> str:
    """The page as text: always the same for the same figures."""
    rows = [
        (clean(str(name)), percent(score.precision), percent(score.recall), score.count)
        for name, score in zip(found.classes, found.scores)
    ]
    tasks = [
        (task.number, ", ".join(clean(str(name)) for name in task.classes), task.examples, *map(percent, task.shares))
        for task in found.tasks
    ]
    return filled(
        "evaluation.html",
        title=f"How good is {clean(Path(found.model).name)}?",
        facts=[("on", clean(found.data)), ("method", clean(found.method)), ("classes", len(found.classes))],
        cards=_cards(found),
        charts=_charts(found),
        rows=rows,
        tasks=tasks,
        pairs=[(clean(str(name)), clean(str(answer)), count) for name, answer, count in found.confusions(LISTED)],
        mistakes=[_shown(mistake) for mistake in found.mistakes],
        unknown=[(clean(name), count) for name, count in found.unknown.items()],
        unreadable=[(clean(path), clean(reason)) for path, reason in list(found.unreadable.items())[:LISTED]],
        unread=len(found.unreadable),
        glossary=MEANINGS,
    )


def _cards(found: Evaluation) -> list[Card]:
    low, high = found.interval
    calibration = found.calibration
    around = (("95 % interval", f"{percent(low)} to {percent(high)}"), ("images", str(found.examples)))
    cards = [
        Card(
            "Accuracy",
            percent(found.accuracy),
            "",
            around,
            "On images that were taught it is too good.",
        ),
        Card("Mean recall", percent(found.mean_recall), "", (), "Accuracy in which every class counts the same."),
    ]
    why, others = "Too few images to fit a temperature.", list[tuple[str, str]]()
    if calibration.temperature is not None:
        others = [("temperature", f"{calibration.temperature:.2f}"), ("with it", percent(calibration.error_after))]
        why = (
            f"The temperature is fitted on {calibration.fitted} examples ({calibration.fitted_on}). Without it, on the "
            f"same {calibration.judged} images: {percent(calibration.error_before)}."
        )
    elif calibration.fitted_on is not None:
        why = f"No temperature: every answer on {calibration.fitted_on} is right."
    return [*cards, Card("Calibration error", percent(calibration.error), "ECE", tuple(others), why)]


def _charts(found: Evaluation) -> "list[Chart]":
    from esacl.report.figures.confusion_plot import confusion_plot
    from esacl.report.figures.evaluation_plots import history_plot, reliability_plot

    own = [len(task.classes) for task in found.tasks]
    charts = [
        confusion_plot(found.confusion, list(map(str, found.classes)), own),
        reliability_plot(found.calibration.bins, found.calibration.error),
        history_plot(found.history),
    ]
    return [chart for chart in charts if chart is not None]


def _shown(mistake: Mistake) -> Shown:
    name = clean(Path(mistake.name).name or mistake.name)
    return Shown(mistake, name, "" if mistake.pixels is None else _data_uri(mistake.pixels))


def _data_uri(pixels: Tensor) -> str:
    """A picture of bytes [C, H, W], small enough that a page can hold many; empty for what is no picture."""
    if pixels.shape[0] not in (1, 3):
        return ""
    array = pixels[0].numpy() if pixels.shape[0] == 1 else pixels.permute(1, 2, 0).numpy()
    image, buffer = Image.fromarray(array), BytesIO()
    form = "png" if max(image.size) <= SMALL else "jpeg"
    image.thumbnail((LARGE, LARGE))
    image.save(buffer, form)
    return f"data:image/{form};base64,{b64encode(buffer.getvalue()).decode()}"
