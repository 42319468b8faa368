"""The system checks of a project with these apps: its API is guarded, and nothing that pages,
sockets and workers need is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from celery import current_app
from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.urls import NoReverseMatch, reverse

from hitl.http import rest
from hitl.rendering import places

HINT = "docs/how-to/embedding.md has all of it."
MIDDLEWARE = {
    "django.contrib.sessions.middleware.SessionMiddleware": "nobody can log in",
    "django.contrib.auth.middleware.AuthenticationMiddleware": "pages fail, and know nobody",
    "django.middleware.csrf.CsrfViewMiddleware": "forms of other sites act in people's names",
    "hitl.http.tracing.middleware": "answers have no trace id",
    "hitl.http.authentication.middleware": "a request may act by the token of one before",
    "hitl.http.incoming.middleware": "large bodies are refused without words",
    "hitl.http.throttles.middleware": "wrong tokens may be tried without a limit",
    "hitl.http.idempotency.middleware": "an Idempotency-Key has no effect",
    "hitl.http.languages.middleware": "pages are in one language",
    "django.contrib.messages.middleware.MessageMiddleware": "pages fail that say what was done",
    "axes.middleware.AxesMiddleware": "passwords may be tried without a limit",
}
"""Middleware → what is so without it."""
APPS = {
    "django.contrib.humanize": "pages fail",
    "django.contrib.messages": "pages fail that say what was done",
    "django.contrib.staticfiles": "pages have no styles",
    "csp": "pages have no content security policy",
}
PROCESSORS = {
    "django.template.context_processors.request": "pages fail",
    "django.contrib.auth.context_processors.auth": "pages know nobody",
    "django.contrib.messages.context_processors.messages": "pages do not say what was done",
    "hitl.views.common.navigation": "pages have no menu",
}
ADDRESSES = {
    "hitl:inbox": "there are no pages: include hitl.urls",
    "login": "pages fail for whoever is not logged in",
    "set_language": "pages fail that let people choose a language",
    "words": "scripts have no words: name hitl.http.languages.words so",
}
ROUNDS = "runs.tasks.order_rounds"


@register("hitl")
def api_is_guarded(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Report which classes REST_FRAMEWORK lacks: in all views, they ask for a login and check the
    scopes of tokens.
    """
    if not (lacking := rest.lacking(settings.REST_FRAMEWORK)):
        return []
    message = (
        f"REST_FRAMEWORK leaves out {', '.join(lacking)}, so the API would let in whom it "
        "should not."
    )
    return [
        Error(
            message,
            hint="Build it on hitl.http.rest.FRAMEWORK; see docs/how-to/embedding.md.",
            id="hitl.E001",
        )
    ]


@register("embedding")
def nothing_is_missing(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """Report all that this project lacks of what the shipped one has, each with what is so without
    it. It reads all addresses, so `manage.py check` alone asks.
    """
    found = [
        *_middleware_and_apps(),
        *_pages(),
        *_addresses(),
        *_work(),
    ]
    return [
        Warning(f"{thing} is missing: {loss}.", hint=HINT, id=f"hitl.W{number:03}")
        for number, thing, loss in found
    ]


def _middleware_and_apps() -> Iterator[tuple[int, str, str]]:
    for name, loss in MIDDLEWARE.items():
        if name not in settings.MIDDLEWARE:
            yield 2, f"{name} in MIDDLEWARE", loss
    for name, loss in APPS.items():
        if not apps.is_installed(name):
            yield 3, f"{name} in INSTALLED_APPS", loss
    if "EXCEPTION_HANDLER" not in settings.REST_FRAMEWORK:
        yield 2, "EXCEPTION_HANDLER in REST_FRAMEWORK", "a refusal is a server error"


def _pages() -> Iterator[tuple[int, str, str]]:
    known: list[dict[str, Any]] = settings.TEMPLATES
    engines = [
        engine for engine in known if str(places.TEMPLATES) in map(str, engine.get("DIRS", ()))
    ]
    if not engines:
        yield 4, f"{places.TEMPLATES} in the DIRS of TEMPLATES", "pages fail"
    for engine in engines or [{}]:  # all that one lacks is told at once
        options = engine.get("OPTIONS", {})
        if "hitl.templatetags.hitl" not in options.get("builtins", ()):
            yield 4, "hitl.templatetags.hitl in the builtins of TEMPLATES", "pages fail"
        for name, loss in PROCESSORS.items():
            if name not in options.get("context_processors", ()):
                yield 4, f"{name} in context_processors", loss
    if str(places.STATIC) not in map(str, settings.STATICFILES_DIRS):
        yield 4, f"{places.STATIC} in STATICFILES_DIRS", "pages have no styles and scripts"
    if str(places.LOCALE) not in map(str, settings.LOCALE_PATHS):
        yield 4, f"{places.LOCALE} in LOCALE_PATHS", "Django's own texts win over the product's"
    if "hitl.formats" not in (settings.FORMAT_MODULE_PATH or ()):
        yield 4, "hitl.formats in FORMAT_MODULE_PATH", "times are written in other ways"


def _addresses() -> Iterator[tuple[int, str, str]]:
    for name, loss in ADDRESSES.items():
        try:
            reverse(name)
        except NoReverseMatch:
            yield 5, f"An address named {name}", loss


def _work() -> Iterator[tuple[int, str, str]]:
    if not getattr(settings, "CHANNEL_LAYERS", {}):
        yield 6, "CHANNEL_LAYERS", "open pages hear of nothing"
    entries = (current_app.conf.beat_schedule or {}).values()
    if ROUNDS not in {entry.get("task") for entry in entries}:
        yield 7, f"{ROUNDS} in Celery's beat_schedule", "no deadline fires, and lost runs stay lost"
    routes = current_app.conf.task_routes
    if not isinstance(routes, Mapping) or ROUNDS not in routes:
        yield 7, "The product's routes in Celery's task_routes", "sweeps wait behind steps"
