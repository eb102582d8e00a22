"""A traced network in stages, each of which can be called by itself on what the stage before answers."""

from torch import nn
from torch.fx import Graph, GraphModule, Node

from esacl.nets.tracing import Traced


class Stages:
    """Stages of a network: layers and residual blocks that follow one another, with outputs of one size.

    Where all that comes later depends on a single value, a new stage may begin: if the next layer or block answers
    with maps of another size or number of channels, or with a vector, and writes no group of units from before.
    """

    def __init__(self, traced: Traced) -> None:
        self.traced = traced
        self._nodes = list(traced.graph.graph.nodes)
        self._place = {node: place for place, node in enumerate(self._nodes)}
        self.of: dict[str, int] = {}  # the stage of each layer
        self.starts: list[Node] = [self._nodes[0]]  # the value that each stage reads
        before: tuple[int, ...] | None = None
        for value, layers in self._blocks():
            size = traced.shapes[traced.layers[layers[-1]][0]][1:]
            if before is not None and (size != before or len(size) == 1):
                self.starts.append(value)
            before = size
            self.of |= dict.fromkeys(layers, len(self.starts) - 1)

    def part(self, since: int, until: int, model: nn.Module | None = None) -> GraphModule:
        """The stages from one up to another as a module; its layers are those of the network, or of a model like it."""
        first, graph = self.starts[since], Graph()
        last = self.starts[until] if until < len(self.starts) else self.traced.answer
        known = {first: graph.placeholder("x")}
        for node in self._nodes[self._place[first] + 1 : self._place[last] + 1]:
            known[node] = graph.node_copy(node, known.__getitem__)
        graph.output(known[last])
        return GraphModule(self.traced.graph if model is None else model, graph)

    def _blocks(self) -> list[tuple[Node, list[str]]]:
        """Layers between two values at which the network can be cut, each list with the value that it reads."""
        cuts = self._cuts()
        found: list[tuple[Node, list[str]]] = []
        for layer, (call, _) in self.traced.layers.items():
            if not found:
                found.append((self._nodes[0], []))
            else:
                before = self._place[self.traced.layers[found[-1][1][-1]][0]]
                if between := [cut for cut in cuts if before <= self._place[cut] < self._place[call]]:
                    found.append((between[-1], []))
            found[-1][1].append(layer)
        return found

    def _cuts(self) -> list[Node]:
        """Values that all later ones depend on alone, with no group of units written before and after them."""
        users = {node: max((self._place[user] for user in node.users), default=-1) for node in self._nodes}
        spans: dict[str, list[int]] = {}  # where the layers and normalisations of a group are called
        for layer, (call, _) in self.traced.layers.items():
            spans.setdefault(self.traced.writes(layer), []).append(self._place[call])
        for call, layer in self.traced.norms.values():
            spans[self.traced.writes(layer)].append(self._place[call])
        found, furthest = [], -1  # the last user of any value before
        for place, node in enumerate(self._nodes[:-1]):
            alone = furthest <= place and node in self.traced.units and not any(map(self._overwrites, node.users))
            if alone and all(max(each) <= place or min(each) > place for each in spans.values()):
                found.append(node)
            furthest = max(furthest, users[node])
        return found

    def _overwrites(self, node: Node) -> bool:
        """Whether a call may change what it reads."""
        if node.op == "call_module":
            return bool(getattr(self.traced.graph.get_submodule(str(node.target)), "inplace", False))
        return bool(node.kwargs.get("inplace")) or str(node.target).endswith("_")
