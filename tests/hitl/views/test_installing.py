"""The pages can be installed on a phone: a manifest and icons that are what it says they are."""

from __future__ import annotations

import json
import struct

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import set_script_prefix

pytestmark = pytest.mark.django_db


def read():
    response = Client().get("/manifest.webmanifest")
    assert (response.status_code, response["Content-Type"]) == (200, "application/manifest+json")
    return json.loads(response.content)


def test_a_browser_is_offered_to_install_it(page):
    """Chromium asks for a name, a start in scope, a window of its own, and icons of two sizes."""
    for response in (page.get("/"), Client().get("/login")):
        assert '<link rel="manifest" href="/manifest.webmanifest">' in response.content.decode()
    manifest = read()
    assert manifest["start_url"] == manifest["scope"] == manifest["id"] == "/"
    assert (manifest["name"], manifest["display"]) == ("Waystation", "standalone")
    sizes = {(icon["sizes"], icon.get("purpose", "any")) for icon in manifest["icons"]}
    assert sizes == {("192x192", "any"), ("512x512", "any"), ("512x512", "maskable")}
    for icon in manifest["icons"]:
        found = finders.find(icon["src"].removeprefix("/static/"))
        assert isinstance(found, str)
        with open(found, "rb") as file:
            head = file.read(24)
        assert head.startswith(b"\x89PNG")
        assert "{}x{}".format(*struct.unpack(">II", head[16:24])) == icon["sizes"]
    assert Client().post("/manifest.webmanifest").status_code == 405


def test_it_is_installed_where_it_is_served():
    """Behind a path, the app is that path, not the whole host."""
    try:
        set_script_prefix("/ways/")
        manifest = read()
    finally:
        set_script_prefix("/")
    assert manifest["scope"] == manifest["start_url"] == "/ways/"
