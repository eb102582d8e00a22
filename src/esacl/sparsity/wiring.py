"""The edges of a network: which are live, whose units they join, and how they are moved."""

import torch
from torch import Tensor, nn

from esacl.errors import ConfigError
from esacl.nets.connections import HEAD, IMAGE, connections
from esacl.nets.network import Network
from esacl.rng import generator
from esacl.sparsity.edges import edge_counts, rewired, scattered
from esacl.sparsity.masks import packed, unpacked
from esacl.types import Params, State


class Wiring:
    """Live edges by weight, [units written, units read]: an edge of a convolution is a whole kernel.

    The same share of the weights is live at all times, up to a kernel. The head is dense, but for edges that were cut.
    """

    def __init__(self, net: Network, density: float, seed: int) -> None:
        self.layers = connections(net.model)
        if still := [one.layer.removeprefix("backbone.") for one in self.layers if one.weight not in net.stored]:
            raise ConfigError(
                "nispa chooses the edges of every layer, but {layer!r} is frozen from the start.",
                remedy="Use {net.freeze:none}, or another method.",
                layer=still[0],
            )
        self.shapes = shapes = {layer.weight: net.stored[layer.weight].shape for layer in self.layers}
        self.inner = {layer.weight: layer for layer in self.layers if layer.writes != HEAD}
        self.areas = {weight: shapes[weight][2:].numel() for weight in self.inner}
        self.units = {layer.writes: shapes[layer.weight][0] for layer in self.layers}  # how many, by group
        self.units[IMAGE] = next(shapes[layer.weight][1] for layer in self.layers if layer.reads == IMAGE)
        for layer in self.layers:
            flat = [norm for norm in layer.norms if not isinstance(net.model.get_submodule(norm), nn.BatchNorm2d)]
            if shapes[layer.weight][1] != self.units[layer.reads] or len(shapes[layer.weight]) not in (2, 4) or flat:
                raise ConfigError(
                    f"nispa needs linear layers of vectors, convolutions of maps with one group, and BatchNorm2d, but "
                    f"{layer.layer.removeprefix('backbone.')!r} is another layer. Average maps before a linear layer, "
                    f"or take a method that need not know which layer reads which, such as 'esacl-der++'."
                )
        self.writes: dict[str, str] = {}  # the group that a parameter writes
        for layer in self.layers:
            norms = [f"{norm}.{own}" for norm in layer.norms for own in ("weight", "bias")]
            own = (layer.weight, f"{layer.layer}.bias", *norms)
            self.writes |= {name: layer.writes for name in own if name in net.stored}
        self.live: Params = {
            weight: torch.ones(shape[:2], dtype=torch.bool, device=net.device) for weight, shape in shapes.items()
        }
        inner = {weight: shapes[weight] for weight in self.inner}
        self.budget = round(density * sum(shape.numel() for shape in inner.values()))  # weights on live edges
        for weight, count in edge_counts(inner, self.budget).items():
            (self.live[weight],) = scattered([self.live[weight]], count, generator(seed, "edges", weight))

    def cut(self, name: str, value: Tensor) -> Tensor:
        """A parameter with zeros on edges that are not live."""
        return torch.where(along(self.live[name], value), value, 0.0) if name in self.live else value

    def gain(self, weight: str) -> Tensor:
        """What a weight's fresh values are multiplied with, by unit: few edges have to bring as much as all would."""
        live = self.live[weight]
        return (live.shape[1] / live.sum(1).clamp(min=1)).sqrt()

    def masks(self) -> Params:
        """Live weights, by prunable parameter."""
        return {weight: self._whole(weight, self.live[weight]) for weight in self.inner}

    def shut(self, held: Params) -> Params:
        """Weights that may not move, by prunable parameter: on dead edges, and into held units."""
        shut = {weight: ~self.live[weight] | held[layer.writes].unsqueeze(1) for weight, layer in self.inner.items()}
        return {weight: self._whole(weight, edges) for weight, edges in shut.items()}

    def _whole(self, weight: str, edges: Tensor) -> Tensor:
        """A mask of weights from one of edges."""
        shape = self.shapes[weight]
        return edges.view(*edges.shape, *[1] * (len(shape) - 2)).expand(shape)

    def rewire(self, stable: Params, held: Params, draw: torch.Generator) -> Params | None:
        """Drop edges from plastic into stable units and grow as many, at random: new edges, or None without room.

        They grow into plastic units, from any unit; where that is not room enough, from stable units into stable ones
        that are not held yet. In the head nothing grows: an edge is live unless it joins a plastic to a stable unit.
        """
        before = {weight: self.live[weight] for weight in self.inner}
        dropped, plastic, fresh = {}, {}, {}
        for weight, layer in self.inner.items():
            out, into = stable[layer.writes].unsqueeze(1), stable[layer.reads].unsqueeze(0)
            dropped[weight] = out & ~into
            plastic[weight] = (~out).expand_as(self.live[weight])
            fresh[weight] = out & into & ~held[layer.writes].unsqueeze(1)
        after = rewired(before, self.areas, self.budget, dropped, (plastic, fresh), draw)
        if after is None:
            return None
        grown = {weight: after[weight] & ~before[weight] for weight in self.inner}
        head = self.layers[-1]
        apart = stable[HEAD].unsqueeze(1) & ~stable[head.reads].unsqueeze(0)
        answered = held[HEAD].unsqueeze(1)
        self.live = {**after, head.weight: torch.where(answered, self.live[head.weight], ~apart)}
        return grown

    def state_dict(self) -> State:
        """The live edges."""
        return packed(self.live)

    def load_state_dict(self, state: State) -> None:
        """Continue from a state of before."""
        self.live = unpacked(state, self.live)


def along(edges: Tensor, value: Tensor) -> Tensor:
    """A mask of edges (or of units written) that can be combined with a weight of theirs."""
    return edges.view(*edges.shape, *[1] * (value.ndim - edges.ndim))
