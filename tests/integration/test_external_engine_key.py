"""The key of an engine at a URL: sent to it, and shown to nobody else."""

import datetime
import ipaddress
import logging
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests import engines as builders
from tests.integration import external_engines
from tests.integration.external_engines import KEY, MakeEngine, Scripted, Serve
from workers.engine import EngineAway, EngineFault

pytestmark = pytest.mark.once
make_engine, serve, scripted = external_engines.make_engine, external_engines.serve, external_engines.scripted


async def test_the_key_opens_an_engine_that_asks_for_one(make_engine: MakeEngine) -> None:
    with builders.tcp_sim(key=KEY) as sim:
        engine = make_engine(sim.url, KEY)
        await builders.start_when_there(engine)
        await engine.warm_up()


@pytest.mark.parametrize("key", ["", "sk-wrong"])
async def test_a_wrong_key_is_told_and_not_shown(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    caplog.set_level(logging.DEBUG)
    scripted.statuses["/v1/models"] = [401]
    engine = make_engine(await serve(scripted), key)

    with pytest.raises(EngineAway, match=r"refuses the key with status 401: SLUICE_ENGINE_KEY") as refused:
        await engine.start()

    assert "sk-wrong" not in str(refused.value) + caplog.text + repr(engine) + repr(vars(engine))
    assert scripted.requests[-1].headers.get("Authorization") == (f"Bearer {key}" if key else None)


async def test_a_key_that_is_withdrawn_sends_jobs_back_uncounted(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted
) -> None:
    engine = make_engine(await serve(scripted), KEY)
    await engine.start()
    scripted.statuses = {"/v1/chat/completions": [401], "/v1/models": [401, 401, 401]}

    with pytest.raises(EngineAway, match="refuses the key"):
        await engine.generate(builders.make_chat_call())


async def test_no_redirect_is_followed_so_no_other_sees_the_key(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted
) -> None:
    other = Scripted()
    scripted.location = f"{await serve(other)}/health"
    engine = make_engine(await serve(scripted), KEY)
    scripted.statuses["/health"] = [307]
    with pytest.raises(EngineAway, match=r"redirects /health with status 307.*--engine-url"):
        await engine.start()

    await engine.start()
    scripted.statuses = {"/v1/chat/completions": [307], "/metrics": [307]}
    with pytest.raises(EngineFault):
        await engine.generate(builders.make_chat_call())
    await engine.gauges()

    assert other.requests == []


async def test_over_tls_only_a_trusted_engine_is_believed(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, tls = _self_signed(tmp_path)
    url = await serve(scripted, tls)
    with pytest.raises(EngineAway, match="certificate"):
        await make_engine(url, KEY).start()
    assert scripted.requests == []

    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    await make_engine(url, KEY).start()


def _self_signed(folder: Path) -> tuple[Path, ssl.SSLContext]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "engine")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(
        now + datetime.timedelta(1)
    )
    signed = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    path = folder / "engine.pem"
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private = folder / "engine.key"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(path, private)
    return path, context
