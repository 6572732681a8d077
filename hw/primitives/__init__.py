"""Hard blocks of FPGA families, with a portable form that every tool understands.

An elaboration gets the family as Amaranth's `platform`. None, and every family without an entry
here, uses the portable form; both forms give the same values in the same cycles.
"""
