"""How Vivado's catalogue names the core."""

from dataclasses import dataclass

from daedal.isa.variant import Variant

__all__ = ["CoreIdentity", "core_identity"]


@dataclass(frozen=True)
class CoreIdentity:
    """Vendor, library, name and version; `revision` tells cores of one name apart."""

    vendor: str
    library: str
    name: str
    version: str
    revision: int

    @property
    def vlnv(self) -> str:
        """vendor:library:name:version"""
        return f"{self.vendor}:{self.library}:{self.name}:{self.version}"


def core_identity(variant: Variant) -> CoreIdentity:
    """The core of a variant; the revision is the first seven digits of the fingerprint."""
    name = "daedal_" + variant.name.replace("-", "_")  # no dash in a name of the catalogue
    return CoreIdentity(
        "daedal", "accelerator", name, "1.0", revision=int(variant.fingerprint[:7], 16)
    )
