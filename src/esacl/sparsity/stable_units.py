"""Which units carry a task: how active each of them is, and the fewest that make up a share of it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from esacl.nets.connections import Connection
from esacl.nets.network import Network
from esacl.types import Params


def stable_units(activity: Tensor, held: Tensor, share: float) -> Tensor:
    """Mask of the smallest set with all units in `held` whose activity is at least `share` of that of all.

    Among equally active ones those that come first.

    >>> stable_units(torch.tensor([1.0, 4.0, 2.0, 3.0]), torch.tensor([True, False, False, False]), 0.75)
    tensor([ True,  True, False,  True])
    """
    activity = activity.double()
    free = (~held).nonzero().squeeze(1)
    ordered, order = activity[free].sort(descending=True, stable=True)
    lacking = share * activity.sum() - activity[held].sum()
    count = int((ordered.cumsum(0) - ordered < lacking).sum())
    chosen = held.clone()
    chosen[free[order[:count]]] = True
    return chosen


def mean_activity(net: Network, layers: Iterable[Connection], batches: Iterable[Tensor]) -> Params:
    """Mean activation of every unit by group, as the layers that read it see it: over images, places and those layers.

    On the CPU and in double precision, as not every device has it.
    """
    totals: Params = {}
    with net.inference(), net.whole(), _reading(net, {layer.layer: layer.reads for layer in layers}, totals):
        for batch in batches:
            net(batch)
    return totals


@contextmanager
def _reading(net: Network, groups: Mapping[str, str], totals: Params) -> Iterator[None]:
    """Add up what these layers read, by the group of units that it comes from."""

    def watch(layer: str, group: str) -> torch.utils.hooks.RemovableHandle:
        def note(_: torch.nn.Module, given: tuple[Tensor, ...]) -> None:
            x = given[0].detach()
            seen = (x if x.ndim == 2 else x.mean((2, 3))).sum(0).cpu().double()
            totals[group] = totals[group] + seen if group in totals else seen

        module: torch.nn.Module = net.model.get_submodule(layer)
        return module.register_forward_pre_hook(note)

    handles = [watch(layer, group) for layer, group in groups.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
