"""The network: the one place where the module is called. It applies the view and meters the cost."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy, deepcopy

import torch
from torch import Tensor, nn
from torch.func import functional_call

from esacl.nets.meter import Meter, macs_per_example
from esacl.nets.partition import Partition, partition
from esacl.types import Outputs, Params, State

View = Callable[[Params, int | None], Params]  # (stored parameters, task) → effective parameters

_AUTOCAST = {"bf16": torch.bfloat16, "16": torch.float16}


class Network:
    """Stored parameters, how they are seen, and what calling them has cost."""

    def __init__(
        self, model: nn.Module, shape: tuple[int, int, int], device: torch.device, precision: str = "32"
    ) -> None:
        layout = torch.channels_last if fits_channels_last(model) else torch.contiguous_format
        self.model = model.to(device=device, memory_format=layout)  # type: ignore[call-overload]
        self.layout = layout
        self.device = device
        self.shape = shape
        self.partition: Partition = partition(model)
        self.meter = Meter(macs_per_example(model, shape))
        self.view: View | None = None
        self.stored: Params = dict(model.named_parameters())
        self._dtype = _AUTOCAST.get(precision)
        self.scaler = torch.amp.GradScaler(device.type, enabled=precision == "16")

    def __call__(self, x: Tensor, task: int | None = None) -> Outputs:
        """Features and logits of a batch, as float32, through the view where there is one."""
        self.meter.count(len(x))
        x = x.contiguous(memory_format=self.layout)
        with self._precision():
            if self.view is None:
                outputs = self.model(x)
            else:
                outputs = functional_call(self.model, self.view(self.stored, task), (x,))
        if self._dtype is not None:
            outputs = Outputs(outputs.features.float(), outputs.logits.float())
        return outputs  # type: ignore[no-any-return]

    def _precision(self) -> AbstractContextManager[object]:
        return nullcontext() if self._dtype is None else torch.autocast(self.device.type, self._dtype)

    def backward(self, loss: Tensor) -> None:
        """Leave the gradient of `loss` in every parameter (scaled in 16-bit arithmetic, see `step`)."""
        for parameter in self.stored.values():
            parameter.grad = None
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.meter.release()

    def gradients(self) -> Params:
        """The gradients that the last backward pass left, by name."""
        return {name: p.grad for name, p in self.stored.items() if p.grad is not None}

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Bring 16-bit gradients to their true scale; nothing to do otherwise."""
        self.scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Move the weights; a 16-bit step whose gradient overflowed is skipped."""
        self.scaler.step(optimizer)
        self.scaler.update()

    @contextmanager
    def inference(self, account: str = "train") -> Iterator[None]:
        """Evaluation mode without gradients; the mode of before is back afterwards, and no statistic has moved."""
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad(), self.meter.account(account):
                yield
        finally:
            self.model.train(was_training)

    @contextmanager
    def still_statistics(self) -> Iterator[None]:
        """Training mode whose BatchNorm statistics do not move: for passes that only look."""
        norms = [module for module in self.model.modules() if isinstance(module, nn.BatchNorm2d)]
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
        twin.stored = dict(twin.model.named_parameters())
        if self.view is not None:
            effective = {name: value.detach().clone() for name, value in self.view(self.stored, None).items()}
            twin.model.load_state_dict(effective, strict=False)
            twin.view = None
        return twin

    def state_dict(self) -> State:
        """Weights, statistics, cost so far, loss scale."""
        return {"model": self.model.state_dict(), "meter": self.meter.state_dict(), "scaler": self.scaler.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before; every tensor must be there and none may be left over."""
        self.model.load_state_dict(state["model"], strict=True)
        self.meter.load_state_dict(state["meter"])
        self.scaler.load_state_dict(state["scaler"])


def fits_channels_last(model: nn.Module) -> bool:
    """Whether the model has convolutions, all of which are safe in the channels-last layout.

    Training strided 1×1 convolutions of fewer than 16 input channels corrupts memory there on AVX-512 processors
    (below 8 on AVX2; https://github.com/uxlfoundation/oneDNN/issues/6035).
    """
    convolutions = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    narrow = any(c.kernel_size == (1, 1) and max(c.stride) > 1 and c.in_channels < 16 for c in convolutions)
    return bool(convolutions) and not narrow
