"""The commands of ``daedal``, one a file; `daedal.cli` registers them."""
