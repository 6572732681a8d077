"""Hard blocks of FPGA families where they pay, behind what every tool understands.

An elaboration gets the family as Amaranth's `platform`. None, and every family without an entry
here, takes the portable form; both forms give the same values in the same cycles.
"""
