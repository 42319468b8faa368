from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.translation import gettext_noop

from checkpoints.extension import Extension
from extensions.booking.samples import DEMO, make_samples

WORDS = (
    gettext_noop(
        "Reads an EN 16931 e-invoice, checks it, and books it by itself when it is sure. Else "
        "it asks: the supplier for what is missing, a bookkeeper about what is doubtful. "
        "Offline."
    ),
    gettext_noop("Nothing is in doubt, and the confidence is not below the threshold."),
    gettext_noop("Invoice"),
    gettext_noop(
        "An EN 16931 e-invoice: XRechnung or other UBL or CII XML, or a ZUGFeRD / Factur-X "
        "PDF. Up to 5 MB."
    ),
    gettext_noop("Mail address of the supplier"),
    gettext_noop(
        "Where the supplier is asked for what is missing. Empty: the address in the invoice "
        "(BT-43)."
    ),
    gettext_noop("With VAT"),
    gettext_noop("Without"),
    gettext_noop("For third parties"),
    gettext_noop("Supplier"),
    gettext_noop("Order"),
    gettext_noop("Tax representative"),
    gettext_noop("Asked by mail"),
    gettext_noop("Confidence"),
    gettext_noop("%(confidence)s, enough is %(threshold)s"),
    gettext_noop("Send the data"),
    gettext_noop("Send the answer"),
    gettext_noop("Book it"),
    gettext_noop("Missing from the supplier: %(names)s"),
    gettext_noop("Question to the supplier about %(lines)s"),
    gettext_noop("Bookkeeper: %(what)s"),
    gettext_noop("nothing in it can be booked"),
    gettext_noop("is this booking right?"),
    gettext_noop("Nothing is booked."),
    gettext_noop("Checks the invoice again with these values; its file is not read again."),
    gettext_noop("A bookkeeper decides about these lines with what is said here."),
    gettext_noop("Books %(positions)s, %(total)s without VAT, less what is sent back or refused."),
    gettext_noop("The invoice was rejected: nothing is booked"),
    gettext_noop("Booked in part: the other lines were refused"),
    gettext_noop("Booked"),
    gettext_noop("Invoice number (%(term)s)"),
    gettext_noop("Issue date (%(term)s)"),
    gettext_noop("Type of invoice (%(term)s)"),
    gettext_noop("Currency (%(term)s)"),
    gettext_noop("Due date (%(term)s)"),
    gettext_noop("Name of the seller (%(term)s)"),
    gettext_noop("VAT id of the seller (%(term)s)"),
    gettext_noop("Country of the seller (%(term)s)"),
    gettext_noop("Name of the buyer (%(term)s)"),
    gettext_noop("IBAN to pay to (%(term)s)"),
    gettext_noop("VAT id of the tax representative (%(term)s)"),
    gettext_noop("The sum of the lines (%(term)s)"),
    gettext_noop("The sum of allowances (%(term)s)"),
    gettext_noop("The sum of charges (%(term)s)"),
    gettext_noop("The total without VAT (%(term)s)"),
    gettext_noop("The sum of VAT (%(term)s)"),
    gettext_noop("The total with VAT (%(term)s)"),
    gettext_noop("The amount due (%(term)s)"),
    gettext_noop("Credit note"),
    gettext_noop("As 2026-12-31."),
    gettext_noop("Three letters, such as EUR."),
    gettext_noop("Such as DE136695976."),
    gettext_noop("Two letters, such as DE."),
    gettext_noop("Without spaces, such as DE89370400440532013000."),
    gettext_noop("With a dot, such as 1190.00."),
    gettext_noop("With a dot, such as 1190.00. The parts come to %(sum)s."),
    gettext_noop("A number such as 0.9213."),
    gettext_noop("Explanation"),
    gettext_noop("It is right as invoiced"),
    gettext_noop("It is wrong; a credit note follows"),
    gettext_noop("Line %(line)s: %(text)s"),
    gettext_noop("Sent back: %(why)s"),
    gettext_noop("Proposed: %(why)s."),
    gettext_noop("Account and cost centre"),
    gettext_noop("Send lines back"),
    gettext_noop("Refuse lines"),
    gettext_noop(
        "Why it goes back. A line with a reason is not booked now: the supplier is asked about "
        "it. Leave it empty to book the line."
    ),
    gettext_noop(
        "Why it is refused. A line with a reason is not booked and not paid. Leave it empty to "
        "book the line."
    ),
    gettext_noop("Which amounts?"),
    gettext_noop("Ask the supplier for the right amounts"),
    gettext_noop("Reject the invoice; the supplier sends a right one"),
    gettext_noop("Book what the parts come to: %(gross)s with VAT, %(due)s due"),
    gettext_noop("Give its lines the sign of its totals: %(gross)s with VAT"),
    gettext_noop("Who owes whom?"),
    gettext_noop("Which supplier is it?"),
    gettext_noop("%(number)s a supplier for this one time"),
    gettext_noop("I compared what was read with the document, and it is right"),
    gettext_noop("It holds the difference alone, or the other one was taken back: book it"),
    gettext_noop("I asked the supplier by a way I knew before, and the new account is right"),
    gettext_noop("I book the VAT that we owe ourselves"),
    gettext_noop("The VAT is right: book it"),
    gettext_noop("I book what we owe the tax office in the supplier's place"),
    gettext_noop("The payment is in our books and will be set off"),
    gettext_noop("Folder of the books"),
    gettext_noop("Below the shared folder; booking where it is left empty."),
    gettext_noop("rest: posted to WAYSTATION_LEDGER_URL first."),
    gettext_noop("Book by itself from this confidence on"),
    gettext_noop("From 0 to 1; 0.90 where it is left empty."),
    gettext_noop("Ask from this amount on"),
    gettext_noop("Gross, in the currency of the books; 10000 where it is left empty."),
    gettext_noop("VAT account"),
    gettext_noop("Supplier number of one-time suppliers"),
    gettext_noop("Texts to the supplier, by name."),
    gettext_noop("Missing data: subject"),
    gettext_noop("Missing data: text"),
    gettext_noop("Lines sent back: subject"),
    gettext_noop("Lines sent back: text"),
)
"""What its steps say of themselves in English, for pages in other languages."""


class BookingConfig(Extension):
    name = "extensions.booking"
    workflows = ("extensions.booking.templates",)
    words = WORDS

    def demo(self, by: Any) -> None:
        """Three invoices: one books itself, one waits for a bookkeeper, one for the supplier."""
        from runs import services as runs  # here: models are not loaded before

        for path in make_samples(
            Path(settings.WAYSTATION_SHARED) / "booking", Path(settings.WAYSTATION_DATA) / "inbox"
        ):
            if path.name in DEMO:
                runs.submit("smart-booking", by=by, input={"invoice": {"path": str(path)}})
