"""RabbitMQ's management API, as far as queues go, for tests: a page has one queue."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

__all__ = ["management"]


class _Handler(http.server.BaseHTTPRequestHandler):
    queues: list[dict[str, Any]]
    user: str

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
def management(queues: list[dict[str, Any]], user: str = "guest:guest") -> Iterator[str]:
    """Serve queues, and yield the URL."""
    handler = type("Handler", (_Handler,), {"queues": queues, "user": user})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(10)
