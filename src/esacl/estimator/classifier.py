"""The classifier: scikit-learn's interface around a learner."""

from collections.abc import Collection, Mapping
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from esacl.config import DEFAULT_METHOD
from esacl.errors import CheckpointError, naming
from esacl.estimator.heldout import HeldOut, told
from esacl.estimator.labels import Labels, given_labels
from esacl.estimator.layout import InputLayout
from esacl.estimator.learner import ClassifierPlan, Learner
from esacl.estimator.progress import progress
from esacl.estimator.settings import as_parameter, check_unchanged, own_of, resolved, scaled_for, settings
from esacl.estimator.storage import Saved, read, write
from esacl.methods import Given as GivenMethod
from esacl.nets import Given
from esacl.streams.arrays import out_of_torch
from esacl.streams.base import Examples
from esacl.streams.resize import Rule

Array = npt.NDArray[Any]
SEEDS = 2**31 - 1
FITTED = {"_held", "_labels", "_layout", "_learner", "classes_", "n_tasks_", "n_features_in_", "feature_names_in_"}


class ContinualClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that keeps learning: new classes, or more examples of old ones, without the data of before.

    `partial_fit` learns one more task: whatever arrives together. `fit` forgets everything and learns its first task.
    The examples of a task are not kept, but for a small memory in methods that have one.

    X: features [N, D], or images [N, H, W], [N, C, H, W] or [N, H, W, C]. Images are bytes (uint8) or numbers of any
    other kind; all calls must agree on it. `channels` says which of four axes is the channels: "first", "last", or
    "auto": the one of the second and the last that has length 1 or 3, an error where it is not exactly one. X is
    scaled by what the first task looks like: images channel by channel, features all by one mean and one spread, so
    features of very different size should be brought to a common one before.

    y: labels of one kind, numbers or texts. Columns of the network for `max_classes` classes are set aside from the
    start: memories, importances and teachers hold an entry for every column, so they cannot be added later. Columns
    without a class cost little, and are never answered.

    Parameters
    ----------
    method : any of `esacl methods`, but for those that must be told the task or learn all tasks at once; an
        `esacl.Method` of your own, or the name of code: "package.module:OBJECT" (docs/plugins.md).
    sparsity : share of the weights that are zero in the end (default: the method's own, 0.8 for EsaCL).
    buffer : examples that are remembered of all tasks together (default: the method's own, 500).
    epochs, batch_size : how long a task trains, and on how many of its examples at a time.
    lr : learning rate (default: the method's own for the backbone).
    backbone, width : "auto", "mlp", "cnn", "resnet10" or "resnet18", and how wide (default: its own). Or a network of
        your own: a torch module, of which a copy is trained, or "package.module:function" (docs/own-network.md).
    weights, freeze : a file of pre-trained weights, and the layers that stay as they are (docs/pretrained.md).
    columns : columns of the head that compete in the loss of an example: "all", "seen" (classes so far) or "task"
        (classes of its task). Default: the method's own; "seen" for gpm and la-maml (docs/estimator.md).
    max_classes : classes there will ever be, at most.
    expected_tasks : how many tasks there will be, if known: EsaCL then gives each the same share of the weights. If
        not, each takes a quarter of what is left. Tasks beyond the expected ones get no weights of their own.
    channels : "auto", "first" or "last" axis of images with four axes.
    resize : how `esacl learn` and `esacl predict` bring image files to the shape of X: "crop", "pad" or "squash".
    options : settings of the method's parts by slot, such as {"update": {"momentum": 0.8}}; see `esacl methods NAME`.
        Other parts by slot: {"parts": {"constraint": "gpm"}}; see `esacl parts`.
    device : "auto", "cpu", "cuda" or "mps".
    random_state : a number for the same result every time.
    verbose : whether to show a bar with the time left while learning.
    holdout : share of the examples of each new class that are never trained on (at most 20, of classes of 10 or more)
        but kept, to tell in `history_` how good the classifier is.

    epochs, batch_size, lr, holdout, options of the update and device may be changed between tasks; the rest only with
    `fit`.

    Attributes
    ----------
    classes_ : the classes so far, sorted.
    n_tasks_ : tasks learnt so far.
    n_features_in_ : numbers in an example.
    feature_names_in_ : names of the features, where X had text for them.
    density_ : share of the weights in use.
    history_ : right answers on held-out examples after each of the last 100 tasks.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ContinualClassifier(random_state=0)
    >>> model = model.partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    >>> model.classes_, model.n_tasks_
    (array([0, 1, 2]), 2)
    """

    def __init__(
        self,
        method: GivenMethod = DEFAULT_METHOD,
        *,
        sparsity: float | None = None,
        buffer: int | None = None,
        epochs: int = 10,
        batch_size: int = 32,
        lr: float | None = None,
        backbone: Given = "auto",
        width: int | None = None,
        weights: str | None = None,
        freeze: str | None = None,
        columns: str | None = None,
        max_classes: int = 100,
        expected_tasks: int | None = None,
        channels: str = "auto",
        resize: Rule = "crop",
        options: Mapping[str, Mapping[str, Any]] | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
        holdout: float = 0.0,
    ) -> None:
        self.method = method
        self.sparsity = sparsity
        self.buffer = buffer
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.backbone = backbone
        self.width = width
        self.weights = weights
        self.freeze = freeze
        self.columns = columns
        self.max_classes = max_classes
        self.expected_tasks = expected_tasks
        self.channels = channels
        self.resize = resize
        self.options = options
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.holdout = holdout

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    def fit(self, X: Any, y: Any) -> "ContinualClassifier":
        """Forget everything and learn a first task."""
        for name in FITTED & vars(self).keys():
            delattr(self, name)
        return self.partial_fit(X, y)

    @naming(as_parameter)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, held_out: Any = None) -> "ContinualClassifier":
        """Learn one more task. `classes` may name classes that will come later; they are known but not answered yet.

        `held_out`, a pair (X, y), is what the entry in `history_` is measured on, instead of examples of this task.
        If it fails or is interrupted, the classifier is as it was before.
        """
        before: Learner | None = getattr(self, "_learner", None)
        seed = self._seed() if before is None else before.plan.config.seed
        config, method = settings(self.get_params(deep=False), seed)
        array = self._array(X, reset=before is None)
        given = given_labels(y, len(array))
        labels = (Labels.none() if before is None else self._labels).with_classes(given, classes, self.max_classes)
        layout = InputLayout.of(array, self.channels, self.resize) if before is None else self._layout
        examples = Examples(layout.examples(array, self.channels), labels.columns_of(given))
        own = own_of(self.get_params(deep=False), config, layout.shape) if before is None else before.plan.own
        method = method if before is None or before.plan.method is None else before.plan.method
        threads = None if before is None else before.plan.config.machine.threads
        config = resolved(config, layout.shape, threads, own, method)
        if before is None:
            layout = scaled_for(layout, config.net, own)
        plan = ClassifierPlan(config, layout.shape, layout.inputs, self.max_classes, self.expected_tasks, own, method)
        if before is not None:
            check_unchanged(before.plan, plan)
        held, given_out = getattr(self, "_held", HeldOut()), self._judges(held_out, labels, layout)
        start = before or Learner(plan)
        new = set(examples.y.tolist()) - start.seen
        share = self.holdout if given_out is None else 0.0
        taught, held = held.draw(examples, new, share, config.seed, len(start.history))
        with progress(self.verbose) as listen:
            after = start.fit_task(taught, config, listen)
        self._set(labels, layout, after, held.measured(before, after, given_out, len(taught)))
        return self

    def predict(self, X: Any) -> Array:
        """The most likely class of each example."""
        scores = self._scores(X)
        answers: Array = self.classes_[scores.argmax(1).numpy()]
        return answers

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """The probability of each class of `classes_`, [N, classes]; 0 for classes that were named but not learnt.

        Methods that answer with something else than logits (icarl: similarities) have flatter ones than they should.
        """
        chances: npt.NDArray[np.float64] = self._scores(X).double().softmax(1).numpy()
        return chances

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy on these examples."""
        return float(super().score(X, out_of_torch(y, "y"), sample_weight))

    @property
    def history_(self) -> list[dict[str, Any]]:
        """For each task: examples trained on, and [right, held-out] of the classes known before it, before and after
        it, of its new classes, and of each class; `fell` says whether old ones fell by more than chance explains."""
        check_is_fitted(self)
        return told(self._held.history, self._learner.history, self._labels.values.tolist())

    @property
    def density_(self) -> float:
        """Share of the weights (head and biases apart) that are in use."""
        check_is_fitted(self)
        return self._learner.density()

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything, memory and all, to a file that `load` reads: a safetensors file, never a pickle."""
        write(Path(path), self.saved())

    def saved(self) -> Saved:
        """What a file of it holds."""
        check_is_fitted(self)
        params = self.get_params(deep=False)
        if not isinstance(self.random_state, Integral | None):
            params["random_state"] = self._learner.plan.config.seed
        names = getattr(self, "feature_names_in_", None)
        features = None if names is None else tuple(map(str, names))
        return Saved(params, features, self._labels, self._layout, self._learner, self._held)

    @classmethod
    @naming(as_parameter)
    def load(
        cls,
        path: str | PathLike[str],
        backbone: Given | None = None,
        method: GivenMethod | None = None,
        code: Collection[str] = (),
    ) -> "ContinualClassifier":
        """The classifier in a file; what it learns from here on, it learns to the same bits as if never saved.

        A network of your own is given again as `backbone`, and a method as `method`: files never start code. `code`
        names methods and parts that may be started although only the file names them.
        """
        saved = read(Path(path), backbone, method, code)
        try:
            model = cls(**saved.params)
        except TypeError as error:
            raise CheckpointError(f"{str(path)!r} was saved by another version of esacl: {error}.") from None
        if saved.features is not None:
            model.feature_names_in_ = np.array(saved.features, dtype=object)
        model._set(saved.labels, saved.layout, saved.learner, saved.held)
        return model

    def _set(self, labels: Labels, layout: InputLayout, learner: Learner, held: HeldOut) -> None:
        self._labels, self._layout, self._learner, self._held = labels, layout, learner, held
        self.classes_ = labels.values[labels.order]
        self.n_tasks_ = len(learner.history)
        self.n_features_in_ = int(np.prod(layout.shape))

    def _scores(self, X: Any) -> Tensor:
        """A score for each class of `classes_`; −∞ for those not learnt yet."""
        check_is_fitted(self)
        x = self._layout.examples(self._array(X, reset=False), self.channels)
        return self._learner.seen_logits(x)[:, self._labels.order.tolist()]

    def _judges(self, given: Any, labels: Labels, layout: InputLayout) -> Examples | None:
        """Examples that were given to measure on, of the classes that have a column."""
        if given is None:
            return None
        x = check_array(out_of_torch(given[0], "X"), allow_nd=True, dtype="numeric")
        y = column_or_1d(out_of_torch(given[1], "y"))
        check_consistent_length(x, y)
        known = np.isin(y, labels.values)
        return Examples(layout.examples(x[known], self.channels), labels.columns_of(y[known]))

    def _array(self, X: Any, reset: bool) -> Array:
        """X as a checked array of numbers; names and number of features must be those of before."""
        X = out_of_torch(X, "X")
        array: Array = check_array(X, allow_nd=True, dtype="numeric", estimator=self, input_name="X")
        if array.ndim == 2 and (reset or self._layout.kind == "features"):
            validate_data(self, X, reset=reset, skip_check_array=True)
        return array

    def _seed(self) -> int:
        """The seed of every random choice: the number given, or one drawn now."""
        given: Any = self.random_state
        if isinstance(given, Integral):
            return int(given)
        if given is None:
            return int(np.random.default_rng().integers(SEEDS))
        return int(check_random_state(given).randint(SEEDS))
