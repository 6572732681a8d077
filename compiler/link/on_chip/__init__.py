"""What stays on chip between layers, and the LOADs and STOREs that this makes needless."""
