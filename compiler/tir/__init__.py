"""The one loop IR, from tensor expressions to emission: loops around blocks.

`expr` and `stmt` hold the nodes, `printer` the text, `verify` the rules, `interpreter` the meaning.
"""
