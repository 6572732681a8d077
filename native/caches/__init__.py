"""Files that are kept between runs: where they lie, who may have written them, how many there are.

One rule for all caches: a file is used only if this user (or root) owns it and its folder, and
nobody else may write to either. Any other file counts as missing. Names are hashes of everything
that a file depends on, files are replaced atomically, and those that were not used for longest are
removed first. A cache that cannot be used costs time but is no error.
"""
