"""What runs the parts of a network: one module per target."""
