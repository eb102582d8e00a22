"""A method with a planted defect: what it replays after an interruption is not what it would have replayed."""

import esacl
from esacl.objectives.er import Er
from esacl.types import State


class Forgetful(Er):
    """Replay whose generators start anew."""

    def state_dict(self) -> State:
        """Lacks how far the generators are."""
        state = super().state_dict()
        return {**state, "memory": {**state["memory"], "generators": None}}

    def load_state_dict(self, state: State) -> None:
        """Goes on with fresh ones."""
        fresh = self.memory.state_dict()["generators"]
        super().load_state_dict({**state, "memory": {**state["memory"], "generators": fresh}})


METHOD = esacl.Method("forgets what it has drawn", {"objective": Forgetful})
