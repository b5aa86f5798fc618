"""What `sam build` made, under AWS's runtime emulator, with moto as Secrets Manager and a real Postgres over TLS."""
import os, platform, re, shutil, socket, subprocess, sys, time, urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory):
    arch = "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"  # the built program must run here
    out = tmp_path_factory.mktemp("built")
    subprocess.run([BIN / "sam", "build", "DispatcherFunction", "--build-dir", out, "--parameter-overrides", f"Architecture={arch}"],
                   cwd=ROOT, env={**os.environ, "SAM_CLI_TELEMETRY": "0"}, check=True, capture_output=True)
    return out / "DispatcherFunction" / "bootstrap"


@pytest.fixture(scope="module")
def emulator():
    run = subprocess.run(["go", "tool", "-n", "aws-lambda-rie"], cwd=ROOT / "infra" / "tools", check=True, capture_output=True, text=True)
    return run.stdout.strip()


@pytest.fixture(scope="module")
def secrets_manager():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = subprocess.Popen([BIN / "moto_server", "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    for _ in range(300):
        try:
            urllib.request.urlopen(url + "/moto-api/")
            break
        except OSError:
            time.sleep(0.1)
    yield url
    server.terminate()
    server.wait(10)


def test_the_built_function_delivers_and_tells_no_secret(bootstrap, emulator, secrets_manager):
    assert shutil.which("go"), "the test itself is written in Go"
    run = subprocess.run(["go", "test", "-count=1", "-run", "^TestOnAWS$", "-v", "./functions/dispatcher"], cwd=ROOT, text=True, capture_output=True,
                         env={**os.environ, "BOOTSTRAP": str(bootstrap), "EMULATOR": emulator, "SECRETS_MANAGER_URL": secrets_manager})
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert re.search(r"--- PASS: TestOnAWS", run.stdout)
