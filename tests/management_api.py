"""RabbitMQ's management API for tests: queues, of which a page has one, and what leads to them."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

__all__ = ["management", "serving"]


class _Handler(http.server.BaseHTTPRequestHandler):
    queues: list[dict[str, Any]]
    others: dict[str, Any]
    made: list[tuple[str, str, Any]]
    user: str

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.made.append((self.command, self.path, body))
        if "refused" in self.path:
            self.send_response(400)
            self.end_headers()
            self.wfile.write(json.dumps({"error": "bad_request", "reason": "no such"}).encode())
            return
        self.send_response(201)
        self.end_headers()

    do_POST = do_PUT  # noqa: N815  (as http.server calls it)

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        wanted = "Basic " + base64.b64encode(self.user.encode()).decode()
        if self.headers["Authorization"] == "Basic " + base64.b64encode(b"plain:plain").decode():
            self.send_response(401, "Unauthorized")
            self.end_headers()
            said = {"error": "not_authorised", "reason": "Not management user"}
            self.wfile.write(json.dumps(said).encode())
            return
        if self.headers["Authorization"] != wanted:
            self.send_error(401, "Unauthorized")
            return
        for queue in self.queues:
            if parts.path == f"/api/queues/%2F/{queue['name']}":
                self.answer(queue)
                return
        name = parts.path.removeprefix("/api/").partition("/")[0]
        if name in self.others:
            self.answer(self.others[name])
            return
        if parts.path != "/api/queues/%2F":
            self.send_error(404)
            return
        page = int(parse_qs(parts.query)["page"][0])
        items = self.queues[page - 1 : page]
        self.answer({"items": items, "page_count": len(self.queues)})

    def answer(self, found: Any) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serving(
    handler: Callable[..., http.server.BaseHTTPRequestHandler], *, tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Serve HTTP with a request handler. Yield the URL of the server.

    Args:
        handler: creates the handler of each request.
        tls: the certificate of an https server; None for http.
    """
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(10)


@contextlib.contextmanager
def management(
    queues: list[dict[str, Any]],
    user: str = "guest:guest",
    others: dict[str, Any] | None = None,
    made: list[tuple[str, str, Any]] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[str]:
    """Serve queues, and yield the URL.

    Args:
        queues: as the API says them.
        user: who may ask.
        others: what else it answers, by the first part of the path.
        made: takes what it is asked to make: method, path, body. It is not there afterwards.
        tls: the certificate of an https server; None for http.
    """
    about = {
        "queues": queues,
        "user": user,
        "others": others or {},
        "made": [] if made is None else made,
    }
    handler = type("Handler", (_Handler,), about)
    with serving(handler, tls=tls) as url:
        yield url
