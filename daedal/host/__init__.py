"""How long the host takes for its parts of a model."""
