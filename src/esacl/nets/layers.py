"""Kinds of layers, by inspection: whose weights may be pruned, and which of them take statistics of batches."""

from torch import nn

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
"""Layers whose running statistics move in training mode."""

TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *TRANSPOSED)
"""Layers that multiply what they read with a weight."""

PROJECTIONS = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
"""Weights of attention that are no layers of their own; its output is one (`out_proj`)."""


def weight_names(model: nn.Module) -> set[str]:
    """Names of the weights of linear layers, convolutions of any kind and attention."""
    found: set[str] = set()
    for name, module in model.named_modules():
        own: tuple[str, ...] = ("weight",) if isinstance(module, WEIGHTED) else ()
        own = PROJECTIONS if isinstance(module, nn.MultiheadAttention) else own
        found |= {f"{name}.{each}" if name else each for each in own}
    return found
