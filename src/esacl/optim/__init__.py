"""How a gradient is formed and how the weights move."""
