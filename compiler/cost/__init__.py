"""What units of the accelerator take, as the linker and the tiles of convolutions estimate it."""
