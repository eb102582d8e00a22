"""The network: the one place where the module is called. It applies the view and meters the cost."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy, deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from esacl.errors import RunError
from esacl.nets.cache import Cache
from esacl.nets.data_parallel import Shares, share_norms
from esacl.nets.frozen_prefix import frozen_prefix
from esacl.nets.layers import NORMS, fits_channels_last
from esacl.nets.macs import backward_passes, macs_per_example
from esacl.nets.meter import Meter
from esacl.nets.partition import Partition, partition
from esacl.nets.widths import Places, keep_channels, set_widths, widths_of
from esacl.rng import randomness
from esacl.types import Outputs, Params, State

View = Callable[[Params, int | None], Params]  # (stored parameters, task) → effective parameters
Route = Callable[[Tensor], Outputs]  # calls parts of the network and charges the meter for them

_AUTOCAST = {"bf16": torch.bfloat16, "16": torch.float16}


class Network:
    """Stored parameters, how they are seen, and what calling them has cost."""

    def __init__(
        self,
        model: nn.Module,
        shape: tuple[int, int, int],
        device: torch.device,
        precision: str = "32",
        shares: Shares | None = None,
    ) -> None:
        if shares is not None:
            share_norms(model, shares)
        layout = torch.channels_last if fits_channels_last(model) else torch.contiguous_format
        self.model = model.to(device=device, memory_format=layout)  # type: ignore[call-overload]
        self.layout = layout
        self.device = device
        self.shares = shares  # among processes that call it together; None where there is one
        self.shape = shape
        self.partition: Partition = partition(model)
        self.meter = Meter(macs_per_example(model, shape), backward_passes(model, shape))
        self.cache = Cache()  # of what frozen layers answered
        self.prefix = frozen_prefix(model, self.meter.layers)  # whose answers are kept there
        self.view: View | None = None
        self.route: Route | None = None  # instead of calling the whole module, where parts of it are enough
        self.held: tuple[str, ...] = getattr(model, "held", ())  # modules that stay in evaluation mode
        self.stored: Params = {name: value for name, value in model.named_parameters() if value.requires_grad}
        self.sizes = {name: value.numel() for name, value in self.stored.items()}  # when it was widest
        self.widest: dict[str, int] = {}  # channels of each group then, where it was ever narrower or wider
        self.narrowed: Params | None = None  # views into the stored parameters, where a step moves these only
        self.extra: Params = {}  # trainable parameters of the parts, cleared with the network's own
        self.frozen_statistics = False  # whether BatchNorm goes on with the statistics it has, also in training mode
        self.calls = 0  # that drew random numbers
        self.frozen = False  # whether it only answers (a teacher)
        self._dtype = _AUTOCAST.get(precision)
        self.scaler = torch.amp.GradScaler(device.type, enabled=precision == "16")

    def __call__(self, x: Tensor, task: int | None = None) -> Outputs:
        """Features and logits of a batch, as float32, through the view where there is one."""
        if self.frozen and torch.is_grad_enabled():
            with torch.no_grad():
                return self(x, task)
        x = x.contiguous(memory_format=self.layout)
        try:
            outputs = self._called(x, task)
        except ValueError as error:
            if len(x) > 1 or not self.model.training:
                raise
            raise RunError(
                "a step was left with a single example, which this network cannot normalise ({error}).",
                remedy="Use a larger {train.batch_size} or {selection.keep}, or LayerNorm instead of BatchNorm.",
                error=error,
            ) from None
        if self._dtype is not None:
            outputs = Outputs(outputs.features.float(), outputs.logits.float())
        return outputs

    def _called(self, x: Tensor, task: int | None) -> Outputs:
        """What the module answers, through the view and together with other processes where there are such."""
        with self._precision(), self._drawing():
            if self.route is not None and self.view is None:
                with self.whole():
                    return self.route(x)
            self.meter.count(len(x))
            seen = self.stored if self.view is None else self.view(self.stored, task)
            if self.shares is not None and self.shares.active:
                return self.shares.call(self.model, seen, x)
            given = self._past_frozen(x)
            answered: Outputs = self.model(*given) if self.view is None else functional_call(self.model, seen, given)
        return answered

    def _past_frozen(self, x: Tensor) -> tuple[Any, ...]:
        """What the layers that come first and never move answer, and the stage that goes on from there."""
        return (x,) if self.prefix is None else (self.prefix(x, self.cache, self.meter), self.prefix.since)

    def example_gradients(self, loss: Callable[[Outputs, Tensor], Tensor], x: Tensor, y: Tensor) -> Params:
        """Gradient of each example's own loss, [B, ...] by stored parameter, in evaluation mode.

        `loss` maps the outputs and the label of one example (a batch of one) to a number.
        """

        def one(stored: Params, image: Tensor, label: Tensor) -> Tensor:
            effective = stored if self.view is None else self.view(stored, None)
            outputs = functional_call(self.model, effective, (image.unsqueeze(0), *since))
            return loss(outputs, label.unsqueeze(0))

        stored = {name: value.detach() for name, value in self.stored.items()}
        with self.inference():
            x, *since = self._past_frozen(x)
        with self.inference(), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):  # others know no batches of gradients
            self.meter.count(len(x))
            self.meter.release()
            return vmap(grad(one), in_dims=(None, 0, 0))(stored, x, y)  # type: ignore[no-any-return]

    def _drawing(self) -> AbstractContextManager[object]:
        """Random numbers of dropout and the like, in training mode: another seed for every call, all known."""
        seed = getattr(self.model, "draws", None)
        if seed is None or not self.model.training:
            return nullcontext()
        self.calls += 1
        return randomness(seed, str(self.calls))

    def _precision(self) -> AbstractContextManager[object]:
        return nullcontext() if self._dtype is None else torch.autocast(self.device.type, self._dtype)

    def backward(self, loss: Tensor) -> None:
        """Leave the gradient of `loss` in every parameter (scaled in 16-bit arithmetic, see `step`)."""
        for parameter in (*self.trained.values(), *self.extra.values()):
            parameter.grad = None
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.meter.release()

    @property
    def trained(self) -> Params:
        """What a step moves: the stored parameters, or views into a part of them."""
        return self.stored if self.narrowed is None else self.narrowed

    def gradients(self) -> Params:
        """The gradients that the last backward pass left, by name."""
        return {name: p.grad for name, p in self.trained.items() if p.grad is not None}

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Bring 16-bit gradients to their true scale; nothing to do otherwise."""
        self.scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Move the weights; a 16-bit step whose gradient overflowed is skipped."""
        self.scaler.step(optimizer)
        self.scaler.update()

    @contextmanager
    def inference(self, account: str | None = None) -> Iterator[None]:
        """Evaluation mode without gradients, charged to `account` (the open one by default).

        The mode of before is back afterwards, and no statistic has moved.
        """
        modes = [(module, module.training) for module in self.model.modules()]
        self.model.eval()
        try:
            with torch.no_grad(), self.meter.account(account or self.meter.name):
                yield
        finally:
            for module, training in modes:
                module.training = training

    def whole(self) -> AbstractContextManager[None]:
        """Every process calls it with all rows: for those who watch what layers read."""
        return nullcontext() if self.shares is None else self.shares.apart()

    @property
    def normalises_by_batch(self) -> bool:
        """Whether an answer depends on the other rows of a batch, as with BatchNorm in training mode."""
        return any(isinstance(module, NORMS) and module.training for module in self.model.modules())

    def train_mode(self) -> None:
        """Training mode, but for frozen layers; with `frozen_statistics`, BatchNorm goes on using the ones it has."""
        self.model.train()
        for name in self.held:
            self.model.get_submodule(name).eval()
        if self.frozen_statistics:
            for module in self.model.modules():
                if isinstance(module, NORMS):
                    module.eval()

    @contextmanager
    def using(self, effective: Params) -> Iterator[None]:
        """Answer with these parameters instead of the stored ones, such as fast weights."""
        before, self.view = self.view, lambda stored, task: effective
        try:
            yield
        finally:
            self.view = before

    def effective_state(self, task: int | None = None) -> Params:
        """The model's state as it answers: the view's weights where there is one."""
        state = self.model.state_dict()
        return state if self.view is None else {**state, **self.view(self.stored, task)}

    def in_use(self, density: Mapping[str, float]) -> float:
        """Share of the weights of these layers that are in use, of those that there were when it was widest."""
        used = sum(share * self.stored[name].numel() for name, share in density.items())
        return used / total if (total := sum(self.sizes[name] for name in density)) else 1.0

    @contextmanager
    def untracked(self) -> Iterator[None]:
        """BatchNorm normalises by the batch but leaves its statistics alone: for passes that only look."""
        norms = [module for module in self.model.modules() if isinstance(module, NORMS)]
        tracked = [norm.track_running_stats for norm in norms]
        for norm in norms:
            norm.track_running_stats = False
        try:
            yield
        finally:
            for norm, before in zip(norms, tracked):
                norm.track_running_stats = before

    def teacher(self) -> "Network":
        """A frozen copy as it answers now; its calls are charged to the same meter."""
        twin = copy(self)
        twin.model = deepcopy(self.model).eval().requires_grad_(False)
        parameters = dict(twin.model.named_parameters())
        twin.stored, twin.extra = {name: parameters[name] for name in self.stored}, {}
        twin.narrowed, twin.route = None, None
        twin.model.load_state_dict(self.effective_state())
        twin.view = None
        twin.frozen = True
        return twin

    def state_dict(self) -> State:
        """Weights, statistics, cost so far, loss scale."""
        return {
            "model": self.model.state_dict(),
            "meter": self.meter.state_dict(),
            "scaler": self.scaler.state_dict(),
            "frozen_statistics": self.frozen_statistics,
            **({"calls": self.calls} if self.calls else {}),
            "cache": self.cache.state_dict(),
        }

    def widen(self, widths: Mapping[str, int]) -> None:
        """Give groups of units other widths (see `connections`); old channels stay as they are, new ones are zero."""
        self._note_widths()
        set_widths(self.model, widths)
        self._fit_widths()

    def narrow(self, kept: Mapping[str, Tensor]) -> dict[str, Places]:
        """Remove all channels but these of each group of units, for good; what stays of every tensor, by name."""
        self._note_widths()
        places = keep_channels(self.model, kept)
        self._fit_widths()
        return places

    def at_widest(self) -> "Network":
        """A copy as wide as it ever was, to be measured; itself where no channel went."""
        if not self.widest or self.widest == widths_of(self.model, self.stored):
            return self
        twin = self.teacher()
        twin.meter = Meter(self.meter.layers)
        twin.widen(self.widest)
        return twin

    def _note_widths(self) -> None:
        """Remember how wide it was."""
        for group, units in (widths_of(self.model, self.stored) or {}).items():
            self.widest[group] = max(units, self.widest.get(group, 0))

    def _fit_widths(self) -> None:
        """Memory layout and cost of another width; the largest sizes that there were."""
        self._note_widths()
        self.model.to(memory_format=self.layout)
        self.sizes = {name: max(self.sizes[name], value.numel()) for name, value in self.stored.items()}
        self.meter.measure(macs_per_example(self.model, self.shape), backward_passes(self.model, self.shape))

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before; every tensor must be there and none may be left over.

        A network that has grown is as wide as it was then.
        """
        if any(value.shape != state["model"].get(name, value).shape for name, value in self.stored.items()):
            widths = widths_of(self.model, state["model"])
            if widths is not None:
                self.widen(widths)
        self.model.load_state_dict(state["model"], strict=True)
        self.meter.load_state_dict(state["meter"])
        self.scaler.load_state_dict(state["scaler"])
        if self.prefix is not None:
            self.prefix.forget()
        self.frozen_statistics, self.calls = state["frozen_statistics"], state.get("calls", 0)
        if "cache" in state:  # which checkpoints of before do not have
            self.cache.load_state_dict(state["cache"])
