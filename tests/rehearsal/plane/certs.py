"""The plane's own authority: certificates of servers, and of users in their common name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Pair:
    certificate: Path
    key: Path


class Authority:
    """Kubernetes takes a client certificate's common name for the user, its organization for the
    group."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ca = trustme.CA()
        self.certificate = folder / "ca.crt"
        self._ca.cert_pem.write_to_path(self.certificate)

    def server(self, name: str, *hosts: str) -> Pair:
        return self._write(name, self._ca.issue_cert(*hosts))

    def client(self, user: str, group: str) -> Pair:
        # Go refuses a certificate that names no host at all.
        issued = self._ca.issue_cert("user", common_name=user, organization_name=group)
        return self._write(user.replace(":", "-"), issued)

    def _write(self, name: str, issued: trustme.LeafCert) -> Pair:
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        (chain,) = issued.cert_chain_pems
        chain.write_to_path(pair.certificate)
        issued.private_key_pem.write_to_path(pair.key)
        return pair
