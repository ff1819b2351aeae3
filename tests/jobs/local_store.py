"""A server of S3 on this machine, for the tests of jobs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("moto") is None:
    pytest.skip("moto, a local server of S3, is not installed: make setup", allow_module_level=True)

from amqp10msg.files import stores

SECRET = "a-secret-that-must-not-be-seen"
#: What the clients of S3 ask the environment for.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def s3_server() -> Iterator[Any]:
    """Run a server with a bucket ``lake``, which this process and its children find."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415  (a quarter of a second)

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        running.start()
        host, port = running.get_host_and_port()
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        from pyarrow import fs  # noqa: PLC0415  (with these variables)

        store, _ = fs.FileSystem.from_uri("s3://?allow_bucket_creation=true")
        store.create_dir("lake")
        try:
            yield running
        finally:
            running.stop()
            stores._open_store.cache_clear()
