"""The cost meter: multiply-adds of every call of the network, counted where it is called.

A forward pass costs examples × Σ MACs of its layers; with gradients on, three times that (forward, gradient of
the inputs, gradient of the weights). A frozen layer has no gradient of its weights, and where nothing before it is
trained, none of its inputs either. `sparse` gives credit for zero weights, `executed` does not: it is what
dense hardware really does.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from esacl.types import State


class Meter:
    """Running totals of multiply-adds, in the account that is open ("train" unless said otherwise)."""

    def __init__(self, layers: Mapping[str, int], passes: Mapping[str, int] | None = None) -> None:
        self.measure(layers, passes or {})
        self.executed_macs: dict[str, int] = {}
        self.sparse_macs: dict[str, float] = {}
        self.largest_step = 0  # most examples whose activations were held for one backward pass
        self._held = 0
        self.name = "train"

    def measure(self, layers: Mapping[str, int], passes: Mapping[str, int]) -> None:
        """From now on the network has these multiply-adds, by layer; how often each is run on the way back, if not 2.

        Twice is for the gradients of inputs and of weights, once for those of inputs alone.
        """
        self.layers = dict(layers)
        self.passes = {name: passes.get(name, 2) for name in layers}
        self.dense = sum(layers.values())  # MACs of one example
        self.back = sum(macs * self.passes[name] for name, macs in layers.items())  # of its gradients
        self.set_density({})

    def set_density(self, density: Mapping[str, float], dense_gradients: bool = False) -> None:
        """Share of non-zero weights of each layer from now on; layers not named are dense.

        With `dense_gradients` the gradient of a zero weight is needed as well.
        """
        credited = {name: macs * density.get(name, 1.0) for name, macs in self.layers.items()}
        self.sparse = float(sum(credited.values()))  # MACs of one example, with credit for zeros
        self.passed = float(sum(macs for name, macs in credited.items() if self.passes[name] > 0))  # inputs' gradients
        learning = self.layers if dense_gradients else credited
        self.graded = float(sum(macs for name, macs in learning.items() if self.passes[name] > 1))  # weights' gradients

    def count(self, examples: int) -> None:
        """Charge one call."""
        if torch.is_grad_enabled():
            self._held += examples
            self._add(examples * (self.dense + self.back), examples * (self.sparse + self.passed + self.graded))
        else:
            self._add(examples * self.dense, examples * self.sparse)

    def count_parts(self, examples: int, forward: int, backward: int) -> None:
        """Charge a call of some parts: multiply-adds of an example there and, with gradients on, back."""
        learns = torch.is_grad_enabled() and backward > 0
        self._held += examples if learns else 0
        self.charge(examples * (forward + backward * learns))

    def charge(self, macs: int) -> None:
        """Charge arithmetic that is not a call of the network, such as fitting a probe."""
        self._add(macs, macs)

    def _add(self, executed: int, sparse: float) -> None:
        self.executed_macs[self.name] = self.executed_macs.get(self.name, 0) + executed
        self.sparse_macs[self.name] = self.sparse_macs.get(self.name, 0.0) + sparse

    def release(self) -> None:
        """A backward pass frees the activations of the calls before it."""
        self.largest_step = max(self.largest_step, self._held)
        self._held = 0

    @contextmanager
    def account(self, name: str) -> Iterator[None]:
        """Charge what happens inside to another account."""
        before, self.name = self.name, name
        try:
            yield
        finally:
            self.name = before

    def state_dict(self) -> State:
        """The totals so far."""
        return {
            "sparse": self.sparse,
            "passed": self.passed,
            "graded": self.graded,
            "executed_macs": dict(self.executed_macs),
            "sparse_macs": dict(self.sparse_macs),
            "largest_step": self.largest_step,
        }

    def load_state_dict(self, state: State) -> None:
        """Continue from totals of before."""
        self.sparse = state["sparse"]
        self.passed = state.get("passed", self.sparse)
        self.graded = state.get("graded", self.sparse)
        self.executed_macs = dict(state["executed_macs"])
        self.sparse_macs = dict(state["sparse_macs"])
        self.largest_step = state["largest_step"]
        self._held = 0
