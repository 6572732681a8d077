"""Every operator of the accelerator as a graph of one layer."""
