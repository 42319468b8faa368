"""The files of a patch as HTML of a page. A patch has dozens, so their texts are looked up once and
no template is asked for each.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from html import escape

from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, ngettext

from checkpoints.text import invisible
from hitl.rendering.patches.reading import FileDiff
from hitl.rendering.patches.sheets import FileSheet, PatchSheet


def tree(sheet: PatchSheet) -> SafeString:
    """The items of the list that leads to the files."""
    items = []
    for depth, name, leaf in sheet.tree:
        shown = invisible.html(name)
        if leaf is not None:
            seen = ' class="seen"' if leaf.file.seen else ""
            shown = SafeString(f'<a href="#file-{leaf.number}"{seen}>{shown}</a>')
        items.append(f'<li class="d{depth}">{shown}</li>\n')
    return mark_safe("".join(items))  # noqa: S308  # each name is escaped


def choices(files: Sequence[FileDiff]) -> SafeString:
    """The options of a choice among the files."""
    return mark_safe(  # noqa: S308  # each path is escaped
        "".join(
            f'<option value="{escape(file.path)}">{escape(invisible.plain(file.path))}</option>'
            for file in files
        )
    )


def rows(pause_id: uuid.UUID, sheet: FileSheet) -> SafeString:
    """Lines of a file, and the way to those that are not drawn."""
    return _Files(pause_id).rows(sheet)


def files(
    pause_id: uuid.UUID, sheet: PatchSheet, fold: str, *, ticks: bool, only: int | None = None
) -> SafeString:
    """Each file: its name, which folds its lines, and the button that ticks it as seen.

    Args:
        fold: the icon of the names.
        only: the file that the page is about, whose lines are shown even where it was seen.
    """
    write = _Files(pause_id)
    pieces = (
        piece
        for one in sheet.files
        for piece in write.file(one, fold, ticks=ticks, is_open=one.number == only)
    )
    return mark_safe("".join(pieces))  # noqa: S308  # what others wrote is escaped in each part


class _Files:
    """What the files of one patch share."""

    def __init__(self, pause_id: uuid.UUID) -> None:
        self.address = reverse("hitl:pause_files", args=[pause_id])
        self.changes = gettext("Changes in %(path)s")
        self.tick, self.untick = gettext("Mark as seen"), gettext("Not seen after all")

    def file(self, sheet: FileSheet, fold: str, *, ticks: bool, is_open: bool) -> Iterator[str]:
        file, name = sheet.file, sheet.file.name
        yield (
            f'<div class="file{" seen" if file.seen else ""}" id="file-{sheet.number}"'
            f' data-path="{escape(file.path)}" tabindex="-1" role="group"'
            f' aria-label="{escape(invisible.plain(name))}">'
            f"<details{' open' if is_open or not file.seen else ''}>\n<summary>"
            f'{fold}<code>{invisible.html(name)}</code><span class="count">'
            f'<b class="plus">+{file.added}</b> <b class="minus">−{file.removed}</b></span>'
            f"</summary>\n{self.rows(sheet)}"
        )
        if file.hidden:
            more = ngettext(
                "%(hidden)s more line of this file is in the whole patch.",
                "%(hidden)s more lines of this file are in the whole patch.",
                file.hidden,
            )
            yield f'<p class="quiet">{more % {"hidden": file.hidden}}</p>\n'
        yield "</details>\n"
        if ticks:
            value, words = (":0", self.untick) if file.seen else ("", self.tick)
            yield (
                f'<button class="button small tick" name="file" value="{file.digest}{value}"'
                f' form="reading">{words}</button>\n'
            )
        yield "</div>\n"

    def rows(self, sheet: FileSheet) -> SafeString:
        label = self.changes % {"path": escape(invisible.plain(sheet.file.name))}
        html = (
            f'<div class="diff" tabindex="0" role="region" aria-label="{label}">'
            f"<pre>{sheet.html}</pre></div>\n"
        )
        if sheet.left:
            one = f"{self.address}?file={sheet.number}"
            words = ngettext("Show %(left)s more line", "Show %(left)s more lines", sheet.left)
            html += (
                f'<p class="later" data-lines="{sheet.left}"'
                f' data-later="{one}&amp;from={sheet.end}">'
                f'<a href="{one}">{words % {"left": sheet.left}}</a></p>\n'
            )
        return SafeString(html)
