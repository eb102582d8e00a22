"""Memory: what training must hold by count, and what the process really took."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from esacl.documents import Count
from esacl.nets.meter import Meter
from esacl.nets.network import Network
from esacl.training.parts import Parts


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes that training holds at once, counted: weights, what backward needs of a forward pass, gradients."""

    parameters: Count
    activations: Count
    gradients: Count

    @property
    def total(self) -> int:
        """All three together."""
        return self.parameters + self.activations + self.gradients


def footprint(net: Network, examples: int) -> Footprint:
    """The footprint of a step that holds the activations of `examples` examples."""
    held = sum(value.numel() * value.element_size() for value in net.stored.values())
    return Footprint(held, examples * activation_bytes(net), held)


def activation_bytes(net: Network) -> int:
    """Bytes that one example's forward pass keeps for the backward pass, each storage once."""
    teacher = net.teacher()
    teacher.meter = Meter(net.meter.layers)  # measuring is not training: it is charged to nobody
    teacher.frozen = False
    teacher.model.train().requires_grad_(True)
    known = {value.untyped_storage().data_ptr() for value in (*teacher.model.parameters(), *teacher.model.buffers())}
    kept: dict[int, int] = {}
    held: list[Tensor] = []  # alive until the end, so that no storage is counted under a recycled address

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
            held.append(tensor)
        return tensor

    examples = 2  # BatchNorm cannot normalise one
    with teacher.whole(), torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        outputs = teacher(torch.zeros(examples, *net.shape, device=net.device))
    del outputs
    return sum(kept.values()) // examples


def tensor_bytes(state: Any) -> int:
    """Bytes of all tensors in a nested state."""
    if isinstance(state, Tensor):
        return state.numel() * state.element_size()
    if isinstance(state, Mapping):
        return sum(tensor_bytes(value) for value in state.values())
    return sum(tensor_bytes(value) for value in state) if isinstance(state, list | tuple) else 0


def kept_bytes(net: Network, parts: Parts) -> int:
    """Bytes of a network with its statistics, and of all that the parts of a method keep beside it."""
    return tensor_bytes(net.model.state_dict()) + tensor_bytes(parts.state_dict())


def reset_peak_memory(device: torch.device) -> None:
    """Start measuring the peak anew, where the system allows it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):  # only Linux can; elsewhere the peak is that of the process
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_bytes(device: torch.device) -> int:
    """Largest memory of the device, or of the process where the device has none of its own, since the reset."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
