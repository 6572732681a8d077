"""The one loop IR, from tensor expressions to emission: loops around blocks.

`expr` and `stmt` define the nodes, `printer` and `parser` the text, `verify` the rules, and
`interpreter` the semantics.
"""
