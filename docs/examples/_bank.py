"""A bank to try `refund.py` with: it pays each key once, and forgets all when it is stopped.

`python3 docs/examples/_bank.py`, in a terminal of its own.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAID: dict[str, str] = {}


class Bank(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        wish = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Idempotency-Key"]
        receipt = PAID.setdefault(key, f"receipt-{len(PAID) + 1}")
        sys.stdout.write(f"{receipt}: {wish['amount']} EUR for order {wish['order']}\n")
        body = json.dumps({"receipt": receipt}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", 9000), Bank).serve_forever()
