"""Which layer reads and which writes each channel, found by symbolic tracing (`torch.fx`)."""

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Interpreter, Node, Tracer

from esacl.code import message
from esacl.errors import ConfigError
from esacl.nets.layers import NORMS, TRANSPOSED, WEIGHTED
from esacl.rng import generator

IMAGE = "image"
"""The group of what the network is shown."""

BODY = "backbone"
"""The backbone's name in a model, and in its graph."""

CHANNELWISE = (
    nn.Identity, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish,
    nn.Hardsigmoid, nn.Hardtanh, nn.Sigmoid, nn.Tanh, nn.Softplus, nn.Softsign,
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d,
)  # fmt: skip
FUNCTIONS = {
    "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "hardswish", "hardsigmoid",
    "hardtanh", "sigmoid", "tanh", "softplus", "softsign", "dropout", "clamp", "abs", "neg", "square", "contiguous",
}  # fmt: skip
POOLS = {
    "max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool", "MaxPool", "AvgPool", "AdaptiveAvgPool",
    "AdaptiveMaxPool",
}  # fmt: skip
PAIRS = {"add", "sub", "mul"}
AVERAGES = {"mean", "amax", "sum"}
SHAPERS = {"flatten", "view", "reshape", "squeeze"}
EXAMPLES = 3  # of the call that tells shapes


@dataclass(frozen=True, slots=True)
class Units:
    """What the second dimension of a value is: the units of a group, each with so many entries side by side."""

    group: str
    places: int = 1


class Traced:
    """A backbone as a graph: its layers and normalisations in the order of their calls, and the units of every value.

    A group is named after the first layer that writes it. Values that are added up, or multiplied, share a group.
    """

    def __init__(self, backbone: nn.Module, shape: tuple[int, int, int]) -> None:
        self.network = type(backbone).__name__
        self.graph = self._graph(backbone)
        self.shapes = self._shapes(backbone, shape)
        self.units: dict[Node, Units] = {}
        self.layers: dict[str, tuple[Node, Units]] = {}  # by name: the call, and what it reads
        self.norms: dict[str, tuple[Node, str]] = {}  # by name: the call, and the layer that it normalises
        self._modules = dict(self.graph.named_modules())
        self._same: dict[str, str] = {}  # groups that turned out to be an earlier one
        self._last: dict[str, str] = {}  # the last layer of a group
        for node in list(self.graph.graph.nodes):
            if (found := self._visit(node)) is not None:
                self.units[node] = found
        self.answer: Node = self.graph.graph.output_node().args[0]  # type: ignore[assignment]
        self.graph.recompile()

    def group(self, units: Units) -> str:
        """The group of units, by its final name."""
        name = units.group
        while name in self._same:
            name = self._same[name]
        return name

    def writes(self, layer: str) -> str:
        """The group that a layer writes."""
        return self.group(self.units[self.layers[layer][0]])

    def _graph(self, backbone: nn.Module) -> GraphModule:
        whole = _Whole(backbone)
        try:
            return GraphModule(whole, _Tracer().trace(whole))
        except Exception as error:
            raise self._refusal(
                f"its forward cannot be traced ({message(error)})",
                "Let it decide nothing by its input, and write x.shape[0] for len(x)",
            ) from None

    def _shapes(self, backbone: nn.Module, shape: tuple[int, int, int]) -> dict[Node, tuple[int, ...]]:
        """Shapes of all tensors, by a call in evaluation mode; the graph must answer as the module does."""
        device = next(backbone.parameters()).device
        x = torch.randn(EXAMPLES, *shape, generator=generator(0, "probe")).to(device)
        modes = [(module, module.training) for module in backbone.modules()]
        backbone.eval()
        try:
            with torch.no_grad():
                reader = _Reader(self.graph)
                answer = reader.run(x)
                if device.type != "meta" and not torch.equal(answer, backbone(x)):
                    raise self._refusal("its forward changes what it has computed in place", "Leave that out")
        finally:
            for module, training in modes:
                module.training = training
        return reader.shapes

    def _visit(self, node: Node) -> Units | None:
        """The units of a node's value; none of numbers."""
        read = [self.units[each] for each in node.all_input_nodes if each in self.units]
        if node.op == "placeholder":
            return Units(IMAGE)
        if node.op == "output":
            return None
        if node.op == "get_attr":
            raise self._refusal(f"it uses {_short(node)!r} outside of a layer", "Put it into a layer")
        if node.op == "call_module":
            return self._module(node, self._modules[str(node.target)], read[0])
        name = _name(node)
        if not self.shapes.get(node):
            if read and name not in ("size", "getattr", "dim"):
                raise self._refusal(f"its forward calls {name}(), which makes no map or vector", "Leave it out")
            return None
        if all(each.group == IMAGE for each in read):
            return Units(IMAGE)
        return self._function(node, name, read)

    def _module(self, node: Node, module: nn.Module, read: Units) -> Units:
        """The units that a layer answers with."""
        kind = type(module).__name__
        if isinstance(module, WEIGHTED) and not isinstance(module, TRANSPOSED):
            return self._layer(node, module, read)
        if isinstance(module, NORMS):
            return self._norm(node, read)
        if next(module.parameters(), None) is None:
            if read.group == IMAGE or isinstance(module, CHANNELWISE) or self._pools(node, kind):
                return read
            if isinstance(module, nn.Flatten):
                return self._reshaped(node, read)
        raise self._refusal(
            f"its layer {_short(node)!r} ({kind}) may mix channels",
            "Use layers that keep channels apart, such as BatchNorm, ReLU and pooling",
        )

    def _layer(self, node: Node, module: nn.Module, read: Units) -> Units:
        """A convolution or linear layer: it writes a group of its own; a depthwise one that which it reads."""
        layer, weight = str(node.target), module.get_parameter("weight")
        if layer in self.layers:
            raise self._refusal(f"its layer {_short(node)!r} is called twice", "Give each call a layer of its own")
        if len(self.shapes[node]) != weight.ndim:
            raise self._refusal(f"its layer {_short(node)!r} reads tokens", "Use convolutions, or flatten before it")
        self.layers[layer] = node, read
        if (groups := getattr(module, "groups", 1)) == 1:
            written = Units(_short(node))
        elif groups == module.in_channels == module.out_channels and read.group != IMAGE:
            written = read
        else:
            raise self._refusal(
                f"its layer {_short(node)!r} is a convolution of {groups} groups",
                "Use one group, or as many as there are channels in and out",
            )
        self._last[self.group(written)] = layer
        return written

    def _norm(self, node: Node, read: Units) -> Units:
        """BatchNorm, which belongs to the last layer that writes its group."""
        norm = str(node.target)
        if norm in self.norms:
            raise self._refusal(f"its layer {_short(node)!r} is called twice", "Give each call a layer of its own")
        if read.group == IMAGE or read.places > 1:
            what = "the image" if read.group == IMAGE else "flattened maps"
            raise self._refusal(
                f"its layer {_short(node)!r} normalises {what}", "Put it behind a convolution or linear layer"
            )
        self.norms[norm] = node, self._last[self.group(read)]
        return read

    def _function(self, node: Node, name: str, read: list[Units]) -> Units:
        """The units that a function or method answers with."""
        if name in PAIRS:
            return self._pair(node, name, read)
        if name in FUNCTIONS or self._pools(node, name):
            return read[0]
        if name in AVERAGES and not {0, 1} & self._averaged(node):
            return read[0]
        if name in SHAPERS:
            return self._reshaped(node, read[0])
        raise self._refusal(
            f"its forward calls {name}(), which may join, mix or move channels",
            "Use sums, activations, pooling and flatten",
        )

    def _pair(self, node: Node, name: str, read: list[Units]) -> Units:
        """A sum or product: its operands have the same units from now on."""
        shapes = [self.shapes[each] for each in node.all_input_nodes if each in self.units]
        groups = {self.group(each) for each in read}
        apart = len({(len(shape), shape[1]) for shape in shapes}) > 1 or len({each.places for each in read}) > 1
        if apart or (IMAGE in groups and len(groups) > 1):
            raise self._refusal(
                f"the operands of its {name} have different channels", "Give both as many, none the image's"
            )
        order = [_short(call) for call, _ in self.layers.values()]
        first, *others = sorted(groups, key=order.index) if len(groups) > 1 else groups
        last = max((self._last[group] for group in groups), key=list(self.layers).index)
        self._same |= dict.fromkeys(others, first)
        self._last[first] = last
        return replace(read[0], group=first)

    def _pools(self, node: Node, name: str) -> bool:
        """Whether it is a pooling of maps of as many dimensions as there are."""
        return name[:-2] in POOLS and len(self.shapes[node]) == int(name[-2]) + 2

    def _averaged(self, node: Node) -> set[int]:
        """Dimensions that a mean is taken over."""
        given: Any = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
        rank = len(self.shapes[_source(node)])
        dims = range(rank) if given is None else [given] if isinstance(given, int) else given
        return {dim % rank for dim in dims}

    def _reshaped(self, node: Node, read: Units) -> Units:
        """Flattened maps, whatever it was written as: the graph gets a call that does not know the widths."""
        source = _source(node)
        before, after = self.shapes[source], self.shapes[node]
        if before == after:
            return self._replaced(node, source, read)
        for start in (1, 2):
            if after == (*before[:start], prod(before[start:])):
                with self.graph.graph.inserting_before(node):
                    flat = self.graph.graph.call_function(torch.flatten, (source, start))
                self.shapes[flat] = after
                return self._replaced(node, flat, replace(read, places=prod(before[2:]) ** (start == 1) * read.places))
        raise self._refusal(f"its forward calls {_name(node)}(), which moves channels", "Use flatten")

    def _replaced(self, node: Node, other: Node, units: Units) -> Units:
        """Another node in the place of one, with these units."""
        node.replace_all_uses_with(other)
        self.graph.graph.erase_node(node)
        self.units[other] = units
        return units

    def _refusal(self, why: str, remedy: str) -> ConfigError:
        return ConfigError(
            f"this method must know which layer reads which channels of {self.network}, but {why}. {remedy}, or take a "
            f"method that need not know, such as 'esacl-der++'."
        )


class _Whole(nn.Module):
    """A backbone under the name that it has in a model, called with images alone."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, x: Tensor) -> Any:
        return self.backbone(x)


class _Tracer(Tracer):
    """Goes into every module but layers."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, (*WEIGHTED, *NORMS)) or super().is_leaf_module(m, module_qualified_name)


class _Reader(Interpreter):
    """Notes the shapes of tensors."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.shapes: dict[Node, tuple[int, ...]] = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, Tensor):
            self.shapes[n] = tuple(value.shape)
        return value


def _name(node: Node) -> str:
    """What a function or method is called, in place or not."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    return name.strip("_")


def _source(node: Node) -> Node:
    """The tensor that a function reads first."""
    return node.all_input_nodes[0]


def _short(node: Node) -> str:
    """The name of a layer in the backbone."""
    return str(node.target).removeprefix(f"{BODY}.")
