"""A shop to try `parcel_return.py` with: it begins returns by signed messages, and hears how they
ended by webhooks. `pip install ./client` brings what verifies these.

`python3 docs/examples/_shop.py URL SECRET A-100 40`: begins one at an inbound start's address.
`python3 docs/examples/_shop.py SECRET`: listens at http://127.0.0.1:9001 with an endpoint's secret.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import Request, urlopen

from waystation_client import WebhookInvalid, verify_webhook


def begin(address: str, secret: str, number: str, amount: float) -> dict[str, Any]:
    """Tell of a return; the same number begins it once, however often it is told."""
    body = json.dumps({"data": {"order": number, "amount": amount}}).encode()
    name, at = f"return-{number}", str(int(time.time()))
    signed = f"{name}.{at}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    headers = {
        "Content-Type": "application/json",
        "webhook-id": name,
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{signature}",
    }
    request = Request(address, data=body, headers=headers, method="POST")  # noqa: S310  # one's own
    with urlopen(request, timeout=20) as response:  # noqa: S310  # as above
        told: dict[str, Any] = json.load(response)
        return told


class Shop(BaseHTTPRequestHandler):
    """Takes what Waystation tells; the same message comes again until it was taken."""

    secret = ""
    ends: dict[str, dict[str, Any]] = {}  # of the whole shop, by the message's id

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            message = verify_webhook(body, dict(self.headers.items()), self.secret)
        except WebhookInvalid:
            self.send_response(400)
        else:
            if message.id not in self.ends:
                self.ends[message.id] = message.data
                sys.stdout.write(f"{message.data['type']}: {message.data['data'].get('title')}\n")
            self.send_response(204)
        self.end_headers()


if __name__ == "__main__":
    if len(sys.argv) == 2:
        Shop.secret = sys.argv[1]
        ThreadingHTTPServer(("127.0.0.1", 9001), Shop).serve_forever()
    url, given, number, amount = sys.argv[1:]
    sys.stdout.write(f"{begin(url, given, number, float(amount))}\n")
