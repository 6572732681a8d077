"""ONNX's operators as tensor expressions, for code that a processor runs.

Input: a node with the types of its operands (`Operation`). Output: a tensor per result. `table` has
every operator; each family is a file. Nothing here says how a result is computed.
"""
