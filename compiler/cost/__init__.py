"""What instructions of the accelerator take, as the linker estimates it."""
