"""Invoices in a browser: sent with the form, asked about, answered by two people, on desktop and
phone, live.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from tests.servers.stack import until
from tests.stories.browser.devices import BLANK, PHONE
from tests.stories.conftest import shot
from tests.worlds.books import invoices
from tests.worlds.books.writer import to_cii, to_ubl

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def books(stack):
    """The sample books, where this product's workers look for them."""
    stack.manage("sample_invoices")
    with (stack.folder / "data" / "shared" / "booking" / "purchase_orders.csv").open("a") as orders:
        orders.write("PO-4721,10,70003,Welded frames,2226.00,5400,210,open\n")
    return stack.folder / "data" / "shared" / "booking"


def send(page: Page, name: str, content: bytes) -> str:
    """Fill in the form of a new order with a file; gives its id."""
    page.goto("/work-orders/new?template=smart-booking")
    page.get_by_label("Invoice").set_input_files(
        {"name": name, "mimeType": "application/octet-stream", "buffer": content}
    )
    page.get_by_label("Team").select_option("platform")
    page.get_by_role("button", name="Start the work order").click()
    page.wait_for_url(re.compile(r"/work-orders/wo_"))
    return page.url.rstrip("/").rpartition("/")[2]


def rows(books, number: str) -> list[str]:
    path = books / "ledger.csv"
    return (
        [row for row in path.read_text().splitlines() if f",{number}," in row]
        if path.exists()
        else []
    )


def link_to(stack, address: str | None) -> str:
    """The path of the link in the mail to an address; mails are files here, and their lines may be
    broken.
    """

    def look() -> str | None:
        folder = stack.folder / "data" / "mail"
        mails = [
            text
            for path in folder.glob("*.log")
            for text in path.read_text().split("-" * 79)
            if f"To: {address}" in text
        ]
        found = re.search(r"/l/[\w=\n-]+", mails[-1]) if mails else None
        return found[0].replace("=\n", "").split()[0] if found else None

    found = until(look, what=f"the mail to {address}")
    assert found is not None
    return found


def test_the_supplier_answers_by_a_link_and_the_run_goes_on(stack, open_page, books, chromium):
    """S3-49..51, S3-28: the supplier, on a phone, without account or JavaScript; the bookkeeper's
    page follows and names the address.
    """
    page = open_page("ana", BLANK)
    send(
        page,
        "frames.xml",
        to_cii(replace(invoices.without_vat_id(), number="2026/0599", order="PO-4721")),
    )
    expect(page.locator(".pause")).to_contain_text(
        f"without an account: {invoices.STEEL.email}", timeout=60_000
    )
    shot(page, "booking-asked-outside-desktop")
    context = chromium.new_context(base_url=stack.url, java_script_enabled=False, **PHONE)
    supplier = context.new_page()
    supplier.goto(link_to(stack, invoices.STEEL.email))
    expect(supplier.locator("h1")).to_contain_text("Missing on your invoice 2026/0599")
    shot(supplier, "booking-supplier-phone")
    supplier.get_by_label("VAT id of the seller (BT-31)").fill("wrong")
    supplier.get_by_label("IBAN to pay to (BT-84)").fill(invoices.STEEL_IBAN)
    supplier.get_by_label("I answer for").check()
    supplier.get_by_role("button", name="Send the data").click()
    expect(supplier.locator("main")).to_contain_text("isn't a valid VAT id of the seller")
    shot(supplier, "booking-supplier-refused-phone")
    supplier.get_by_label("VAT id of the seller (BT-31)").fill("ATU12345675")
    supplier.get_by_label("I answer for").check()
    supplier.get_by_role("button", name="Send the data").click()
    expect(supplier.locator("main")).to_contain_text("was recorded as your answer")
    expect(page.locator("main")).to_contain_text("Completed", timeout=60_000)
    expect(page.locator("main")).to_contain_text(invoices.STEEL.email)
    context.close()


def test_a_bookkeeper_on_a_phone_approves_47_lines_and_sends_3_back(stack, open_page, books):
    """S3-50, PEERS 1.6: two people, two devices; what was approved is booked before the supplier
    has answered.
    """
    ana, ben = open_page("ana", BLANK), open_page("ben", BLANK, **PHONE)
    order = send(ana, "fifty.xml", to_ubl(invoices.fifty_lines()))
    expect(ana.locator(".pause")).to_contain_text(
        "Bookkeeper: is this booking right?", timeout=60_000
    )
    shot(ana, "booking-fifty-desktop")
    ben.goto(f"/work-orders/{order}/")
    ben.get_by_text("50 fields").click()
    for line, reason in (("7", "Wrong price"), ("12", "Not delivered"), ("50", "Not ordered")):
        ben.get_by_label(re.compile(rf"^\s*{line}: Sheet metal part")).fill(reason)
    shot(ben, "booking-fifty-phone")
    ben.get_by_role("button", name="Book it").click()
    expect(ben.locator(".pause")).to_contain_text(
        "Question to the supplier about 3 lines", timeout=60_000
    )
    expect(ana.locator(".pause")).to_contain_text("Question to the supplier about 3 lines")
    shot(ben, "booking-lines-phone")
    answer, cancel = (
        ben.locator(f".answers {button}").bounding_box() for button in (".primary", ".cancel")
    )
    assert answer and cancel and answer["y"] < cancel["y"], (
        "where nothing can be approved, Cancel stood first on a phone, above the answer"
    )
    assert len([row for row in rows(books, "2026/0580") if ",line " in row]) == 47
    for line in ("7", "12", "50"):
        group = ana.get_by_role("group", name=re.compile(rf"Line {line}:"))
        group.get_by_label("It is right as invoiced").check()
        group.get_by_label("Explanation").fill("As in our offer.")
    shot(ana, "booking-lines-desktop")
    ana.get_by_role("button", name="Send the answer").click()
    expect(ben.locator(".pause")).to_contain_text(
        "the supplier answered about 3 lines", timeout=60_000
    )
    ben.get_by_role("button", name="Book it").click()
    expect(ana.locator("main")).to_contain_text("Completed", timeout=60_000)
    assert len([row for row in rows(books, "2026/0580") if ",line " in row]) == 50
