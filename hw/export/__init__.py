"""Export to other tools: the files that Vivado needs to use the accelerator as an IP core."""
