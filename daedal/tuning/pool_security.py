"""Who may join a pool: addresses and certificates.

A scheduler and its workers run each other's code (Dask sends pickled functions), so whoever can
connect controls the pool. Beyond the loopback interface every connection is therefore TLS, and each
end must show a certificate that the pool's own authority (`ca.pem`) has signed.
"""

import ipaddress
import logging
import ssl
import stat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dask
from distributed.security import Security

from daedal.common.errors import TuningError, first_line
from daedal.native.python_child import SAFE_PATH

__all__ = [
    "TLS_FILES",
    "configure",
    "is_any_address",
    "pool_url",
    "security_of",
    "variables_for_workers",
]

TLS_FILES = ("ca.pem", "cert.pem", "key.pem")
"""The pool's authority, this machine's certificate, and its private key."""


def configure() -> None:
    """Settings of Dask for pools, in this process and the workers that it starts."""
    settings: dict[str, Any] = {
        # Pages about the pool would be open to everybody, without a certificate.
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        # Candidates run in children of a worker. A worker that dies was killed by someone else, so
        # its candidates are not to blame.
        "distributed.scheduler.allowed-failures": 100,
        # Workers import nothing from the working folder.
        **{f"distributed.nanny.pre-spawn-environ.{name}": SAFE_PATH[name] for name in SAFE_PATH},
        # The system's settings must not weaken this.
        "distributed.comm.tls.min-version": 1.2,
    }
    dask.config.set(settings)
    # Dask logs every attempt and every worker that leaves; our sentences say it once.
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def variables_for_workers() -> set[str]:
    """Names of the variables that Dask sets in this process whenever it starts a worker.

    Source: distributed, nanny.py and proctitle.py.
    """
    given = dask.config.get("distributed.nanny.pre-spawn-environ")
    return {*given, "PYTHONHASHSEED", "__DASK_PARENT_PID"}


def security_of(folder: Path | None) -> Security | None:
    """The certificates in `folder`, for all roles; None for none.

    Raises
    ------
    TuningError
        A file is missing, is no certificate, or the key is another one's.
    """
    if folder is None:
        return None
    ca, cert, key = (folder / name for name in TLS_FILES)
    for path in (ca, cert, key):
        if not path.is_file():
            raise TuningError(
                f"a folder of certificates must have {', '.join(TLS_FILES)}, and "
                f"{str(path)!r} is missing; docs/pool.md shows how to make them"
            )
    mode = key.stat().st_mode
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise TuningError(
            f"a private key must be for its owner alone, and {str(key)!r} has mode "
            f"{stat.S_IMODE(mode):o}; make new certificates if others could read it, else "
            "`chmod 600` it"
        )
    try:
        ssl.create_default_context(cafile=str(ca)).load_cert_chain(str(cert), str(key))
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise TuningError(
            f"certificates must be PEM files that belong together; those in {str(folder)!r} do "
            f"not: {first_line(error)}; make them again"
        ) from error
    roles = {
        f"tls_{role}_{kind}": str(path)
        for role in ("client", "scheduler", "worker")
        for kind, path in (("cert", cert), ("key", key))
    }
    return Security(require_encryption=True, tls_ca_file=str(ca), **roles)


def pool_url(address: str, security: Security | None) -> str:
    """``tls://HOST:PORT`` or, without certificates, ``tcp://HOST:PORT``.

    Raises
    ------
    TuningError
        It is no host and port; or it is not on the loopback interface, and there are no
        certificates.
    """
    scheme = "tcp" if security is None else "tls"
    given, separator, rest = address.rpartition("://")
    try:
        parts = urlsplit(f"//{rest}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if (separator and given not in ("tcp", "tls")) or not host or port is None or parts.path:
        raise TuningError(
            f"a pool's address must be HOST:PORT, such as 127.0.0.1:8786, not {address!r:.80}"
        )
    if security is None and (given == "tls" or not _is_loopback(host)):
        raise TuningError(
            f"a pool beyond this machine must have certificates, for its members run each "
            f"other's code; {address!r:.80} needs --tls FOLDER"
        )
    if given == "tcp" and security is not None:
        raise TuningError(
            f"a pool with certificates has an address with tls://, not {address!r:.80}"
        )
    return f"{scheme}://{parts.netloc}"


def is_any_address(host: str) -> bool:
    """Whether `host` stands for all interfaces: ``0.0.0.0`` or ``::``."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
