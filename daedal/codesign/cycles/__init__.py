"""What one image costs on a variant, step by step: a roofline, an estimate, the cycle model."""
