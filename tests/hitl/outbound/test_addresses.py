"""Which addresses that people give are reached, and how: hostile ones, names that change, and
receivers that are slow (SSRF).
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from fnmatch import fnmatchcase

import pytest

from hitl.outbound import addresses, chat
from hitl.outbound.addresses import AddressRefused, CannotReach, HttpReply

PUBLIC = "93.184.216.34"


def to(*found):
    return lambda host, port: list(found)


@pytest.fixture(autouse=True)
def nothing_allowed(settings):
    settings.WAYSTATION_OUTBOUND_ALLOW = []


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/", "file:///etc/passwd", "gopher://example.org", "//example.org",
        "example.org", "https://", "", "https:///x",
        "https://user:secret@example.org/", "https://@example.org/", "https://example.org/#part",
        "https://exa mple.org/",
        "https://example.org/\r\nHost: inside", "https://example.org\\@10.0.0.1/",
        "https://example.org:99999/", "https://[::1/",
        "https://exämple.org/", "https://example.org/" + "x" * 2000, "https://ex%61mple.org/",
        "https://a,b/",
    ],
)  # fmt: skip
def test_what_is_no_plain_https_address_is_refused(url):
    with pytest.raises(AddressRefused):
        addresses.check(url, resolver=to(PUBLIC))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
        "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1", "168.63.129.16", "::1", "::",
        "fe80::1", "fc00::1", "fd00:ec2::254",
        "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::", "2002:a00:1::1",
        "fec0::1", "2001:db8::1",
        "192.0.0.192", "192.0.0.8", "192.0.0.170", "192.88.99.1", "192.31.196.1", "192.52.193.1",
        "192.175.48.1", "198.51.100.7",
        "203.0.113.7",
        "::ffff:192.0.0.192", "64:ff9b::c000:c0", "64:ff9b:1::7f00:1", "2001::1", "2001:2::1",
        "2001:20::1", "2002:5db8:d822::1", "3fff::1",
        "5f00::1", "100::1", "::7f00:1", "::ffff:0:7f00:1", "4000::1", "2620:4f:8000::1",
        "2001:0:7f00:1::80ff:fffe",
    ],
)  # fmt: skip
def test_a_name_that_leads_inside_is_refused(address):
    for found in ([address], [PUBLIC, address]):
        with pytest.raises(AddressRefused, match="not reached from here"):
            addresses.check("https://hooks.example.org/x", resolver=to(*found))


@pytest.mark.parametrize(
    "address", [PUBLIC, "1.1.1.1", "2606:4700::1111", "64:ff9b::5db8:d822", "::ffff:93.184.216.34"]
)
def test_what_is_public_is_reached_also_behind_a_translator(address):
    assert addresses.check("https://hooks.example.org/x", resolver=to(address))[1] == address


@pytest.mark.parametrize(
    "host",
    ["2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.1", "0", "1.2.3.4.5"],
)
def test_an_address_written_in_another_way_is_refused(host):
    with pytest.raises(AddressRefused):
        addresses.check(f"https://{host}/", resolver=to(PUBLIC))


@pytest.mark.parametrize("literal", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"])
def test_an_address_itself_is_checked_like_a_name(literal):
    with pytest.raises(AddressRefused):
        addresses.check(f"https://{literal}/")


def test_a_public_address_is_taken_over_tls_only():
    target, address = addresses.check("https://hooks.example.org:8443/in?x=1", resolver=to(PUBLIC))
    assert (target.host, target.port, target.path, address) == (
        "hooks.example.org",
        8443,
        "/in?x=1",
        PUBLIC,
    )
    with pytest.raises(AddressRefused, match="Use https"):
        addresses.check("http://hooks.example.org/", resolver=to(PUBLIC))


@pytest.mark.parametrize(
    ("allowed", "host", "address"),
    [
        ("hooks.internal", "hooks.internal", "10.0.0.7"),
        ("*.internal", "hooks.internal", "10.0.0.7"),
        ("10.0.0.0/8", "hooks.internal", "10.0.0.7"),
        ("10.0.0.7", "hooks.internal", "10.0.0.7"),
        ("fd00::/8", "hooks.internal", "fd00::7"),
    ],
)
def test_operators_may_allow_hosts_and_networks(settings, allowed, host, address):
    settings.WAYSTATION_OUTBOUND_ALLOW = [allowed]
    assert addresses.check(f"http://{host}/", resolver=to(address))[1] == address
    with pytest.raises(AddressRefused):
        addresses.check(
            "http://other.example/",
            resolver=to("10.9.9.9" if allowed != "10.0.0.0/8" else "192.168.0.1"),
        )


def test_a_name_that_nobody_knows_is_said_to_be_unknown():
    def nobody(host, port):
        raise socket.gaierror("no")

    with pytest.raises(CannotReach, match=r"no host hooks\.example"):
        addresses.check("https://hooks.example/", resolver=nobody)


@pytest.fixture
def listener():
    """A server on this host whose connections are counted; each is kept open until the test
    ends.
    """
    server = socket.create_server(("127.0.0.1", 0))
    taken: list[socket.socket] = []

    def serve():
        while True:
            try:
                taken.append(server.accept()[0])
            except OSError:
                return

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    yield server.getsockname()[1], taken
    server.shutdown(socket.SHUT_RDWR)  # closed alone, it would take one more, which nobody closes
    serving.join(10)
    server.close()
    for one in taken:
        one.close()


def test_a_name_is_looked_up_once_so_that_it_cannot_change_its_mind(listener, settings):
    """DNS rebinding: the second answer would lead inside, and is never asked for."""
    port, taken = listener
    settings.WAYSTATION_OUTBOUND_ALLOW = ["203.0.113.9"]
    answers = iter([["203.0.113.9"], ["127.0.0.1"], ["127.0.0.1"]])
    asked = []

    def rebinding(host, port):
        asked.append(host)
        return next(answers)

    # nobody listens there; what counts is that nobody was called here
    with pytest.raises(CannotReach):
        addresses.post(f"http://rebind.example:{port}/", b"{}", {}, seconds=0.3, resolver=rebinding)
    assert (asked, taken) == (["rebind.example"], [])


def test_it_is_the_checked_address_that_is_connected_to(receiver):
    """The name exists nowhere: only what the resolver said can have led there."""
    port = receiver.url.split(":")[2].split("/")[0]
    answer = addresses.post(
        f"http://hooks.test:{port}/in", b"{}", {}, seconds=5, resolver=to("127.0.0.1")
    )
    assert (answer.status, receiver.got[0][0]["host"]) == (204, f"hooks.test:{port}")


def test_a_redirect_is_not_followed(receiver):
    def elsewhere(handler):
        handler.send_response(302)
        handler.send_header("Location", receiver.url)
        handler.end_headers()

    receiver.answer = elsewhere
    assert addresses.post(receiver.url, b"{}", {}, seconds=5).status == 302
    assert len(receiver.got) == 1


def test_an_answer_is_read_up_to_a_limit(receiver):
    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):  # the connection is closed under it
            handler.wfile.write(b"x" * 3_000_000)

    receiver.answer = endless
    assert len(addresses.post(receiver.url, b"{}", {}, seconds=5).text) == addresses.ANSWER_BYTES


def test_who_never_answers_and_who_drips_are_left_in_time(receiver):
    def drip(handler):
        for _ in range(100):
            try:
                handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: y\r\n"[:1])
            except OSError:
                return
            time.sleep(0.05)  # one piece after the other: a slow answer

    receiver.answer = drip
    begun = time.monotonic()
    with pytest.raises(CannotReach, match=r"did not answer within 0\.4 seconds"):
        addresses.post(receiver.url, b"{}", {}, seconds=0.4)
    assert time.monotonic() - begun < 2


def test_a_server_that_cannot_prove_its_name_gets_nothing(receiver):
    """TLS is checked against the name, though the connection goes to an address."""
    with pytest.raises(CannotReach):
        addresses.post(receiver.url.replace("http:", "https:"), b"secret", {}, seconds=5)
    assert receiver.got == []


@pytest.mark.parametrize(
    "url",
    [
        "json://example.org/x", "xml://10.0.0.1", "mailto://user:pass@example.org",
        "file:///etc/passwd", "syslog://", "dbus://", "macosx://",
        "apprise://example.org/token", "slack://", "nothing",
        "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/?redirect=yes",
        "workflows://prod-1.logic.azure.com:443/643e69f83c8944/signatureabcdefgh?template=/etc/passwd",
        "workflows://inside.example.org:443/643e69f83c8944/signature-abcdefghijklmnopqrstuvwxyz/",
        "workflows://evil.example/logic.azure.com/x", "slack://T1JJ3T3L2/A1BRTD4JD/x y",
    ],
)  # fmt: skip
def test_only_services_at_their_vendors_are_reached(url):
    with pytest.raises(AddressRefused):
        chat.check(url)


@pytest.mark.parametrize(
    "url",
    [
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/",
        "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
        "workflows://prod-1.logic.azure.com:443/643e69f83c8944/signature-abcdefghijklmnopqrstuvwxyz/",
    ],
)
def test_a_services_address_is_taken_and_follows_no_redirect(url):
    service = chat.check(url)
    assert not service.redirects
    assert service.verify_certificate


def test_a_self_hosted_chat_is_for_operators_to_allow(settings, monkeypatch):
    url = "mmosts://chat.example.org/3ccdd113474722377935511fc85d3dd4"
    with pytest.raises(AddressRefused, match="WAYSTATION_CHAT_SERVICES"):
        chat.check(url)
    settings.WAYSTATION_CHAT_SERVICES = ["mmosts", "mmost"]
    monkeypatch.setattr(addresses, "look_up", to("10.0.0.5"))
    with pytest.raises(AddressRefused, match="not reached from here"):
        chat.check(url)
    with pytest.raises(AddressRefused, match="over TLS"):
        chat.check(url.replace("mmosts", "mmost"))
    monkeypatch.setattr(addresses, "look_up", to(PUBLIC))
    assert chat.check(url).service_name == "Mattermost"


ADDRESSES = {
    "slack": "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/",
    "workflows": "workflows://prod-1.logic.azure.com:443/643e69f83c8944/signature-abcdefghijklmnopqrstuvwxyz/",
    "discord": "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js",
    "gchat": "gchat://workspace/key/token",
    "tgram": f"tgram://123456789:{'a' * 32}/12315544/",
    "wxteams": f"wxteams://{'a' * 80}",
    "webex": f"webex://{'a' * 80}",
    "zulip": f"zulip://botname@apprise/{'a' * 32}/stream",
    "pover": f"pover://{'u' * 30}@{'a' * 30}",
    "pbul": f"pbul://{'a' * 32}",
    "opsgenie": f"opsgenie://{'a' * 36}",
    "pagerduty": f"pagerduty://{'a' * 32}@{'b' * 24}",
}


@pytest.fixture
def exchanges(monkeypatch):
    """What would have been sent where, and from which answer of the resolver."""
    made: list[tuple[str, str, str]] = []

    def exchange(method, target, address, headers, *, body):
        made.append((target.scheme, f"{target.host}:{target.port}", address))
        return HttpReply(
            200, b'{"ok": true, "result": {"id": 1}}', False, {"content-type": "application/json"}
        )

    monkeypatch.setattr(addresses, "exchange", exchange)
    monkeypatch.setattr(addresses, "look_up", to(PUBLIC))
    return made


@pytest.mark.parametrize("service", ADDRESSES)
def test_each_service_is_reached_at_its_vendor_and_at_the_checked_address(service, exchanges):
    """Apprise looked names up once more by itself."""
    chat.check(ADDRESSES[service])
    assert exchanges == []
    # what the vendor would have to answer is not known of each
    with contextlib.suppress(CannotReach):
        chat.send(ADDRESSES[service], title="A question", text="Ship it?")
    for scheme, place, address in exchanges:
        assert (scheme, place.endswith(":443"), address) == ("https", True, PUBLIC)
        assert any(fnmatchcase(place[:-4], vendor) for vendor in chat.VENDORS[service]), place


def test_every_service_that_is_allowed_by_default_has_its_vendor(settings):
    assert set(settings.WAYSTATION_CHAT_SERVICES) <= set(chat.VENDORS)


@pytest.mark.parametrize(
    "organisation",
    [
        "127.0.0.1",
        "127.0.0.1%3A8000%2Fa%3F",
        "evil.example",
        "evil.example%3A81%2Fpath%23",
        "x.zulipchat.com.evil.example",
    ],
)
def test_a_zulip_address_names_no_other_host_port_or_path(settings, exchanges, organisation):
    """Apprise takes all of it from this part."""
    url = f"zulip://bot@{organisation}/{'a' * 32}"
    for act in (chat.check, lambda url: chat.send(url, title="t", text="x")):
        with pytest.raises(
            AddressRefused,
            match=r"go to \*\.zulipchat\.com|no complete address|host's name|behind a #",
        ):
            act(url)
    assert exchanges == []


def test_a_zulip_of_ones_own_is_for_operators_to_allow(settings, exchanges):
    settings.WAYSTATION_OUTBOUND_ALLOW = ["chat.intern.example"]
    chat.send(
        f"zulip://bot@chat.intern.example/{'a' * 32}/stream", title="A question", text="Ship it?"
    )
    assert {place for _, place, _ in exchanges} == {"chat.intern.example:443"}


def test_a_chats_name_that_changes_its_mind_leads_nowhere_else(settings, exchanges, monkeypatch):
    """DNS rebinding, of a service that takes a host."""
    settings.WAYSTATION_CHAT_SERVICES = ["mmosts"]
    answers = iter([[PUBLIC], ["10.0.0.5"]])
    monkeypatch.setattr(addresses, "look_up", lambda host, port: next(answers))
    with pytest.raises(AddressRefused, match="not reached from here"):
        chat.send("mmosts://chat.example.org/3ccdd113474722377935511fc85d3dd4", title="t", text="x")
    assert exchanges == []
