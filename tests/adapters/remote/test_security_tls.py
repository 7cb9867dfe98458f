"""Encrypted connections: a certificate that nobody vouches for is refused, and nothing is said to who shows it."""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kingly_memory import MemoryRouter
from kingly_memory.adapters.clock import SystemClock
from kingly_memory.adapters.remote.dialect import JsonCall
from kingly_memory.adapters.remote.endpoint import endpoint
from kingly_memory.adapters.remote.http import Transport
from kingly_memory.adapters.remote.mcp import McpCall
from kingly_memory.errors import RemoteError, RemoteUnavailable
from kingly_memory.settings import Pace, Settings

PACKAGE = Path(__file__).parents[3] / "kingly_memory"
DIALECTS = (JsonCall, McpCall)


@dataclass(slots=True)
class Server:
    """A server with a certificate that it signed itself, and what was said to it."""

    port: int = 0
    heard: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"


class Quiet(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up during the handshake is what these tests are about."""


def certified(folder: Path, *, days: int = 1, host: str = "localhost", address: str = "127.0.0.1") -> Path:
    """A key, and a certificate that it signed itself, for that host and address and until so many days from now."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    here = [x509.DNSName(host), x509.IPAddress(ipaddress.ip_address(address))]
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now + timedelta(days=days - 2))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(here), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certified(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def server(certificate: Path) -> Iterator[Server]:
    with serving_with(certificate) as about:
        yield about


@contextmanager
def serving_with(certificate: Path) -> Iterator[Server]:
    about = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            about.heard.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *arguments: object) -> None:
            """Not in the tests' output."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Quiet(("127.0.0.1", 0), Handler) as listening:
        listening.socket = context.wrap_socket(listening.socket, server_side=True)
        about.port = listening.server_address[1]
        serving = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield about
        listening.shutdown()
        serving.join()


def said_to(server: Server, context: ssl.SSLContext) -> None:
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as safe,
    ):
        safe.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        assert b"200" in safe.recv(1_000)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_certificate_that_it_signed_itself_is_refused_and_nothing_said(
    server: Server, certificate: Path, dialect: type[JsonCall | McpCall]
) -> None:
    transport = Transport(endpoint(server.url), clock=SystemClock(), token="canary")
    speaking = dialect(transport, space="app", call_timeout_s=30.0)
    with pytest.raises(RemoteUnavailable, match="certificate is not trusted") as refused:
        await speaking.connect()
    await speaking.aclose()
    assert server.heard == []
    assert "canary" not in str(refused.value)
    said_to(server, ssl.create_default_context(cafile=certificate))  # it would have answered who trusts it
    assert server.heard == [b"hello"]


async def test_a_router_says_why_and_goes_on_locally(tmp_path: Path, server: Server) -> None:
    settings = Settings(durability="process", pace=Pace(closing_s=0.0, send_tries=1, offline_after=1), embedder="none")
    async with MemoryRouter.open(tmp_path, server.url, project="app", settings=settings) as memory:
        receipt = await memory.store("kept here", significance=0.9, wait=20)
        assert (receipt.layers, receipt.delivery) == (("local",), "pending")
        assert "certificate is not trusted" in str((await memory.status())["link"]["last_error"])
        assert [hit.memory.content for hit in await memory.search("kept")] == ["kept here"]
    assert server.heard == []


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_authority_of_ones_own_is_trusted_on_this_machine_too(
    server: Server, certificate: Path, dialect: type[JsonCall | McpCall], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    speaking = dialect(
        Transport(endpoint(server.url), clock=SystemClock(), token="t0ken"), space="app", call_timeout_s=30.0
    )
    with suppress(RemoteError):  # that server knows little of either dialect
        await speaking.connect()
    await speaking.aclose()
    assert server.heard != []


@pytest.mark.parametrize(
    ("host", "fault", "said"),
    [
        ("localhost", {"days": -1}, "has expired"),
        ("localhost", {"days": 3}, "is not valid yet"),
        ("localhost", {"host": "elsewhere.example"}, "is for another name"),
        ("127.0.0.1", {"address": "192.0.2.1"}, "is for another address"),
    ],
)
async def test_what_is_wrong_with_a_certificate_of_a_known_authority_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, fault: dict[str, Any], said: str
) -> None:
    bad = certified(tmp_path, **fault)
    monkeypatch.setenv("SSL_CERT_FILE", str(bad))
    with serving_with(bad) as server:
        there = Transport(endpoint(f"https://{host}:{server.port}"), clock=SystemClock())
        speaking = JsonCall(there, space="app", call_timeout_s=30.0)
        with pytest.raises(RemoteUnavailable, match=f"the server's certificate {said}"):
            await speaking.connect()
        await speaking.aclose()
    assert server.heard == []


async def test_an_authority_that_cannot_be_read_is_said(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent/ca.pem")
    speaking = JsonCall(Transport(endpoint(server.url), clock=SystemClock()), space="app", call_timeout_s=30.0)
    with pytest.raises(RemoteUnavailable, match="SSL_CERT_FILE"):
        await speaking.connect()


def test_a_client_that_trusts_nobody_refuses_it_too(server: Server) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        said_to(server, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def test_nowhere_in_the_package_is_verification_switched_off() -> None:
    off = re.compile(r"verify\s*=\s*False|CERT_NONE|check_hostname\s*=\s*False|_create_unverified|verify_mode")
    found = [path.name for path in PACKAGE.rglob("*.py") if off.search(path.read_text(encoding="utf-8"))]
    assert found == []
