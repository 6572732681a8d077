"""The folder of a search: its front, its points, and what verification measured."""
