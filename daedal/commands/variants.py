"""``daedal variants``: the machines that come with Daedal."""

from dataclasses import asdict

from daedal.commands.options import Json
from daedal.isa.variant import load_variant, shipped_variants
from daedal.reports.console import make_console, print_json, print_tables
from daedal.reports.variants import variants_table

__all__ = ["variants_command"]


def variants_command(as_json: Json = False) -> None:
    """List the machines that come with Daedal; a .toml file describes any other."""
    variants = [load_variant(name) for name in shipped_variants()]
    if as_json:
        print_json([asdict(variant) | {"fingerprint": variant.fingerprint} for variant in variants])
    else:
        print_tables(make_console(), variants_table(variants))
