"""Checks programs from files: each must pass the verifier, once for each user and machine.

A file may have been changed, hash and all, or made by other tools. What passed is remembered by the
digest of its bytes and of the rules, so that loading it again costs nothing.
"""

import hashlib
from functools import lru_cache
from pathlib import Path

from daedal.common.errors import ArtifactError, VerificationError
from daedal.isa.own_digests import OwnDigests, user_cache_root
from daedal.isa.program import Program
from daedal.isa.verifier import verify

__all__ = ["check_verified"]


def check_verified(
    program: Program, data: bytes, source: str, known: OwnDigests | None = None
) -> None:
    """Raise ArtifactError unless the program, with all its STOREs, passes the verifier.

    Parameters
    ----------
    data : the bytes that the program was read from.
    source : names the program in errors.
    known : programs that passed before; by default those in the user's cache.
    """
    if known is None:
        root = user_cache_root()
        known = OwnDigests(None if root is None else root / "verified")
    digest = hashlib.sha256(_rules() + data).hexdigest()
    if digest in known:
        return
    try:
        # Its tokens are those of the program, its accesses the same and more.
        verify(program.observed)
    except VerificationError as error:
        raise ArtifactError(
            f"{source} must pass the verifier, and it does not: {error}; compile the model again"
        ) from error
    known.add(digest)


@lru_cache(maxsize=1)
def _rules() -> bytes:
    """Digest of this package, which has the rules and the tables that they follow from."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()
