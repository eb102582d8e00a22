"""`esacl learn`: a saved model learns the images of a folder, as one more task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from esacl.cli.consoles import STATUS, TEXT
from esacl.cli.flags import OUTPUT, Code, described
from esacl.cli.predict import SHOWN
from esacl.cli.progress import counting_progress
from esacl.errors import ConfigError, naming
from esacl.files import check_place
from esacl.short_names import as_flags

if TYPE_CHECKING:
    from esacl.deploy.learning import Lesson

if TYPE_CHECKING:
    from esacl.estimator import ContinualClassifier

NEW = Group("For a new model only", sort_key=1)


FLAGS = {
    "method",
    "train.epochs",
    "sparsity.level",
    "objective.buffer",
    "net.backbone",
    "net.width",
    "net.weights",
    "net.freeze",
}
"""Settings that have a flag here."""


@naming(as_flags(lambda setting: "." in setting and setting not in FLAGS))
def learn_command(
    model: Annotated[Path, Parameter(help="file of a saved classifier; a new one is made with --method")],
    folder: Annotated[Path, Parameter(help="folder that holds one sub-folder of images for each class")],
    /,
    *,
    out: Annotated[
        Path | None, described("file to write [default: the model itself is replaced]", OUTPUT, name=["--out", "-o"])
    ] = None,
    epochs: Annotated[int | None, Parameter(help="epochs of this and later tasks [default: as before, 10]")] = None,
    holdout: Annotated[
        str,
        Parameter(help="share of each new class to judge by, up to 20 images of 10 or more; or a FOLDER of others"),
    ] = "0.1",
    method: Annotated[str | None, described("method of the new model: see `esacl methods`", NEW)] = None,
    sparsity: Annotated[float | None, described("share of zeros [default: the method's own]", NEW)] = None,
    buffer: Annotated[int | None, described("images that it remembers [default: the method's own]", NEW)] = None,
    expected_tasks: Annotated[int | None, described("how many tasks there will be, if known", NEW)] = None,
    max_classes: Annotated[int | None, described("classes there will ever be, at most [default: 100]", NEW)] = None,
    image_size: Annotated[
        int | None, described("images are resized to this [default: 32]", NEW, validator=Number(gte=4, lte=1024))
    ] = None,
    resize: Annotated[
        Literal["crop", "pad", "squash"] | None, described("images that are not square [default: crop]", NEW)
    ] = None,
    backbone: Annotated[
        str | None,
        Parameter(
            help="auto, mlp, cnn, resnet10, resnet18 [default: auto], or package.module:function (given every time)"
        ),
    ] = None,
    code: Code = None,
    weights: Annotated[
        str | None, described("file of pre-trained weights [default: the backbone's package]", NEW)
    ] = None,
    freeze: Annotated[str | None, described("layers that stay as they are: all, names, until:LAYER", NEW)] = None,
    width: Annotated[int | None, described("how wide the network is [default: the backbone's own]", NEW)] = None,
    seed: Annotated[int | None, described("a number for the same result every time", NEW)] = None,
) -> None:
    """Teach a saved model the images of a folder: new classes, more images of old ones, or both.

    Example: esacl learn animals.esacl week-1/ --method esacl-der++ ; then esacl learn animals.esacl week-2/

    The file is replaced when the task is learnt; until then, and if it fails or is interrupted, it stays as it was.
    What is held out stays in the file, is never trained on, and tells after each task how good old and new classes are.
    """
    from esacl.deploy.learning import lesson, open_classifier
    from esacl.estimator.settings import settings
    from esacl.streams.folder import SIDE
    from esacl.streams.listing import MUCH

    fresh: dict[str, Any] = {
        "sparsity": sparsity,
        "buffer": buffer,
        "expected_tasks": expected_tasks,
        "max_classes": max_classes,
        "width": width,
        "weights": weights,
        "freeze": freeze,
        "resize": resize,
        "random_state": seed,
    }
    opened = open_classifier(model, method, backbone, code or ())
    place = out or model
    check_place(place, "model")
    asked = {name: value for name, value in fresh.items() if value is not None}
    if opened is None:
        from esacl.estimator import ContinualClassifier  # slow to import

        learner = ContinualClassifier(str(method), channels="first", backbone=backbone or "auto", **asked)
    else:
        _check_none_given({**asked, **({} if image_size is None else {"image_size": image_size})})
        learner = opened
    share, judges = _holdout(holdout)
    learner.set_params(holdout=share, **({} if epochs is None else {"epochs": epochs}))
    settings(learner.get_params(deep=False), seed=0)  # what cannot be is refused before a large folder is read
    like = (None if opened is None else model, image_size or SIDE, resize or "crop")
    with counting_progress(STATUS, "reading images") as reading:
        taught = lesson(folder, *like, reading, backbone, code or ())
        judged = None if judges is None else lesson(judges, *like, reading, backbone, code or ())
    for read in filter(None, (taught, judged)):
        _warn(read)
    before = set() if opened is None else set(learner.classes_.tolist())
    learner.set_params(verbose=STATUS.is_terminal)
    given = None if judged is None else (judged.x, judged.y)
    learner.partial_fit(taught.x, taught.y, held_out=given).set_params(verbose=False)
    learner.save(place)
    _tell(learner, taught, before, place)
    if len(taught.broken) > MUCH * (len(taught.y) + len(taught.broken)):
        _warn(taught)


def _holdout(given: str) -> tuple[float, Path | None]:
    """A share to hold out, or a folder to judge by."""
    try:
        return float(given), None
    except ValueError:
        return 0.0, Path(given)


def _check_none_given(given: dict[str, Any]) -> None:
    """Refuse settings that a model keeps from its first task on."""
    for name, value in given.items():
        raise ConfigError(
            "{given} was given, but a model keeps that from its first task on.",
            "seed" if name == "random_state" else name,
            value,
            remedy="Leave it out, or start a new model with --method in a file that does not exist yet.",
        )


def _warn(taught: Lesson) -> None:
    if taught.broken:
        lines = [f"  {path}: {reason}" for path, reason in list(taught.broken.items())[:SHOWN]]
        total = len(taught.y) + len(taught.broken)
        told = [f"{len(taught.broken)} of {total} images could not be read and were left out, such as:", *lines]
        STATUS.print("\n".join(told), style="yellow", markup=False, highlight=False, soft_wrap=True)


def _classes(count: int, kind: str = "") -> str:
    return f"{count} {kind}class{'' if count == 1 else 'es'}"


def _tell(learner: ContinualClassifier, taught: Lesson, before: set[Any], place: Path) -> None:
    seen = sorted(set(taught.y.tolist()))
    new = [name for name in seen if name not in before]
    kinds = _classes(len(new), "new ") + (f" and {len(seen) - len(new)} known before" if len(seen) > len(new) else "")
    out = len(taught.y) - learner.history_[-1]["examples"]
    held = f" ({out} of them held out)" if out else ""
    told = (
        f"task {learner.n_tasks_}: {kinds} from {len(taught.y)} images{held}. {place} knows "
        f"{_classes(len(learner.classes_))} and uses {learner.density_:.1%} of its weights."
    )
    TEXT.print(told, markup=False, highlight=False, soft_wrap=True)
    _tell_quality(learner.history_[-1], place)
    expected = learner.expected_tasks
    if expected is not None and learner.n_tasks_ > expected:
        note = (
            f"note: {expected} tasks were expected, so a method that shares out its weights had none left for this "
            f"(grow: the network was widened)."
        )
        STATUS.print(note, markup=False, highlight=False, soft_wrap=True)


def _tell_quality(entry: dict[str, Any], place: Path) -> None:
    """How many held-out images of old and of new classes are answered rightly, and whether old ones fell."""
    (before, _), (old, known), (new, fresh) = entry["before"], entry["old"], entry["new"]
    parts = [f"{old / known:.1%} of {known} of old classes ({before / known:.1%} before)"] if known else []
    parts += [f"{new / fresh:.1%} of {fresh} of new ones"] if fresh else []
    if not parts:
        note = "nothing is held out to judge by: give 10 images of a class or more, or --holdout FOLDER."
        STATUS.print(f"note: {note}", style="dim", markup=False, highlight=False, soft_wrap=True)
        return
    TEXT.print(f"right on held-out images: {', '.join(parts)}", markup=False, highlight=False, soft_wrap=True)
    if entry["fell"]:
        told = (
            f"warning: old classes fell by {(before - old) / known:.1%} of their held-out images, more than chance "
            f"explains. `esacl evaluate {place} FOLDER` shows which. Teach them again; --out keeps the file of before."
        )
        STATUS.print(told, style="yellow", markup=False, highlight=False, soft_wrap=True)
