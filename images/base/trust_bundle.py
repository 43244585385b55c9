"""Add the certificates of a PEM bundle that the system does not trust yet to its trust store.

Sites behind a proxy that opens TLS hand their bundle to the build; most of it is what Debian ships anyway.
"""

import ssl
import subprocess
import sys
from pathlib import Path

STORE = Path("/etc/ssl/certs/ca-certificates.crt")
LOCAL = Path("/usr/local/share/ca-certificates")
END = "-----END CERTIFICATE-----"


def certificates(bundle: Path) -> dict[bytes, str]:
    """Return the certificates of a bundle, PEM by DER."""
    text = bundle.read_text(encoding="utf-8", errors="replace")
    found = {}
    for part in text.split(END)[:-1]:
        pem = "-----BEGIN CERTIFICATE-----" + part.rpartition("-----BEGIN CERTIFICATE-----")[2] + END + "\n"
        found[ssl.PEM_cert_to_DER_cert(pem)] = pem
    return found


def main(bundle: Path) -> None:
    """Trust what is new in the bundle."""
    subprocess.run(["update-ca-certificates", "--fresh"], check=True)
    known = certificates(STORE)
    new = [pem for der, pem in certificates(bundle).items() if der not in known]
    for number, pem in enumerate(new):
        (LOCAL / f"site-{number:03}.crt").write_text(pem)
    subprocess.run(["update-ca-certificates"], check=True)
    sys.stdout.write(f"trusted {len(new)} certificates of the site\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
