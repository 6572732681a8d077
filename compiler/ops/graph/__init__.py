"""Integer operators of the graph as tensor expressions for processors, one file a family.

They compute what `daedal.isa.numerics` defines, bit for bit. Maps have their channels last, in
blocks (`maps`), so that a vector holds the channels of a pixel.
"""
