"""Keys, with certificates that they signed themselves."""

from __future__ import annotations

import datetime as dt
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID


@cache
def key_of(name: str) -> rsa.RSAPrivateKey:
    """Made once in each process: looking for its primes takes as long as several tests."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pair(folder: Path, name: str, *, days: float = 90) -> tuple[Path, Path]:
    """The paths of the key of that name and a new certificate of it, both PEM."""
    key = key_of(name)
    called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(called)
        .issuer_name(called)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    paths = (folder / f"{name}.key", folder / f"{name}.crt")
    paths[0].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    paths[1].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return paths
