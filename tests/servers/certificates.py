"""A certificate authority for one test session, and what it vouches for: a server and a client."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files: the authority to trust, and certificate with key of each side."""

    authority: Path
    server: Path
    client: Path

    def context(self) -> ssl.SSLContext:
        """Of a client that trusts this authority, and shows its own certificate."""
        trusting = ssl.create_default_context(cafile=self.authority)
        trusting.load_cert_chain(self.client)
        return trusting


def make_certificates(folder: Path) -> Certificates:
    import trustme  # slow to import, and needed by few

    made = Certificates(folder / "ca.pem", folder / "server.pem", folder / "client.pem")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(made.authority)
    server = authority.issue_cert("localhost", "127.0.0.1")
    server.private_key_and_cert_chain_pem.write_to_path(made.server)
    client = authority.issue_cert("client@locknut.test")
    client.private_key_and_cert_chain_pem.write_to_path(made.client)
    return made
