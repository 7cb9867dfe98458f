"""A hub with a certificate answers https alone, and says what is wrong with one that it cannot use."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest

from kingly_memory.errors import InvalidSetting
from kingly_memory.hub.process import HubProcess
from kingly_memory.hub.serve import certified as usable
from kingly_memory.hub.serve import run_hub
from tests.adapters.remote.test_security_tls import certified
from tests.cli_runner import Run

pytestmark = pytest.mark.requirement("N24", "A19")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate, and its key in a file of its own."""
    both = certified(tmp_path).read_text()
    at = both.index("-----BEGIN CERTIFICATE")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    key.touch(mode=0o600)
    certificate.write_text(both[at:] if at else both[: both.index("-----BEGIN PRIVATE")])
    key.write_text(both[:at] if at else both[both.index("-----BEGIN PRIVATE") :])
    return certificate, key


def test_a_hub_with_a_certificate_answers_https_and_nothing_else(
    tmp_path: Path, files: tuple[Path, Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--tls-cert", str(files[0]), "--tls-key", str(files[1]))
    with HubProcess(tmp_path / "hub", options=options) as hub:
        url = hub.url
        assert url.startswith("https://")
        trusting = ssl.create_default_context(cafile=str(files[0]))
        with httpx.Client(verify=trusting, trust_env=False, timeout=60) as web:
            stored = {"method": "store_memory", "params": {"content": "tea at four"}}
            assert web.post(f"{url}/mcp/call", json=stored).status_code == 200
        unknown = run("hub", "status", "--url", url)
        assert "certificate is not trusted; name the authority that signed it in SSL_CERT_FILE" in unknown.err
        monkeypatch.setenv("SSL_CERT_FILE", str(files[0]))
        assert ", ready" in run("hub", "status", "--url", url).out
        monkeypatch.delenv("SSL_CERT_FILE")
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{url}/health", trust_env=False)
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{url.replace('https', 'http')}/health", trust_env=False)


def test_what_cannot_be_used_is_said_before_anything_is_opened(tmp_path: Path, files: tuple[Path, Path]) -> None:
    certificate, key = files
    for given in ((certificate, None), (None, key)):
        with pytest.raises(InvalidSetting, match="name both, or neither"):
            run_hub(tmp_path / "hub", port=0, tls_cert=given[0], tls_key=given[1])
    with pytest.raises(InvalidSetting, match="no certificate and its private key"):
        usable(key, key)
    with pytest.raises(InvalidSetting, match="cannot be read"):
        usable(tmp_path / "gone.pem", key)
    key.chmod(0o644)
    with pytest.raises(InvalidSetting, match="chmod 600"):
        usable(certificate, key)
    assert not (tmp_path / "hub").exists()
