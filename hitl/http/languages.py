"""The language of pages: what a person chose in this browser, or when they last chose one
elsewhere, else what their browser asks for, else WAYSTATION_LANGUAGE.

Everything else is English: answers to programs, whose `code` is what is compared; the ledger,
events and logs, which are evidence and must not depend on who acted; workers and commands.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, cast

from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, parse_cookie
from django.utils import translation
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.utils.translation.trans_real import parse_accept_lang_header
from django.views.decorators.http import require_POST, require_safe
from django.views.i18n import JavaScriptCatalog, set_language

from checkpoints.database.people import User
from hitl.identity import languages
from hitl.rendering import catalogues

FOR_PROGRAMS = ("/api/", "/metrics", "/livez", "/readyz", "/mcp", "/langgraph/", "/words.js")
YEAR = 31_536_000
BROUGHT = "_language_brought"
"""On the request of a login: the language that this person chose elsewhere."""


def middleware(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Activate the language of a page while it is made.

    Not Django's LocaleMiddleware: that speaks to programs in any language too, and leaves its last
    one active behind it.
    """

    def in_its_language(request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith(FOR_PROGRAMS):
            with translation.override("en"):
                return get_response(request)
        with translation.override(language_of(request)):
            response = get_response(request)
            patch_vary_headers(response, ["Accept-Language"])
            response.headers.setdefault("Content-Language", translation.get_language() or "en")
        if (known := getattr(request, BROUGHT, "")) and not _chosen(request):
            _keep(response, known)
        return response

    return in_its_language


def language_of(request: HttpRequest) -> str:
    return _first_known(_chosen(request), request.META.get("HTTP_ACCEPT_LANGUAGE", ""))


def language_of_socket(scope: Any) -> str:
    """The language of the page that opened a socket: browsers send the same headers for both."""
    headers = [(name, value.decode("latin-1")) for name, value in scope["headers"]]
    cookies = parse_cookie("; ".join(value for name, value in headers if name == b"cookie"))
    accepted = ",".join(value for name, value in headers if name == b"accept-language")
    return _first_known(cookies.get(settings.LANGUAGE_COOKIE_NAME, ""), accepted)


def _first_known(chosen: str, accepted: str) -> str:
    for code in _wanted(chosen, accepted):
        try:
            return translation.get_supported_language_variant(code)
        except LookupError:
            continue
    return settings.WAYSTATION_LANGUAGE


def _wanted(chosen: str, accepted: str) -> Iterator[str]:
    if chosen:
        yield chosen
    for code, _ in parse_accept_lang_header(accepted):
        if code == "*":
            return
        yield code


@require_POST
def change(request: HttpRequest) -> HttpResponseBase:
    """Keep a choice in a cookie, and where it is known who chooses, with them."""
    if isinstance(request.user, User):
        languages.choose(request.user, request.POST.get("language", ""))
    return set_language(request)


@receiver(user_logged_in)
def bring(sender: object, request: HttpRequest | None, user: User, **_: object) -> None:
    """Have a browser in which nobody chose a language speak that of whoever logs in."""
    if request is not None and not _chosen(request):
        setattr(request, BROUGHT, languages.chosen_by(user.pk))


def _chosen(request: HttpRequest) -> str:
    return request.COOKIES.get(settings.LANGUAGE_COOKIE_NAME, "")


def _keep(response: HttpResponse, language: str) -> None:
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        language,
        max_age=settings.LANGUAGE_COOKIE_AGE,
        secure=settings.LANGUAGE_COOKIE_SECURE,
        httponly=settings.LANGUAGE_COOKIE_HTTPONLY,
        samesite=cast(Any, settings.LANGUAGE_COOKIE_SAMESITE),
    )


@require_safe
def words(request: HttpRequest) -> HttpResponseBase:
    """The words of static/js in a language; in English, which those files hold, there are none.

    A page names it with `words_version`, so it may be kept for ever.
    """
    language = request.GET.get("language", "en")
    if language not in dict(settings.LANGUAGES):
        raise Http404
    with translation.override(language):
        response = JavaScriptCatalog.as_view(packages=["hitl"])(request)
    patch_cache_control(response, public=True, immutable=True, max_age=YEAR)
    return response


def words_version(language: str) -> str:
    """Tells one version of those words from the next."""
    path = catalogues.compiled(language, "djangojs")
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.exists() else ""
