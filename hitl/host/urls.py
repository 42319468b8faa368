"""All addresses of a project that serves the apps, in one `include` behind its own: the shipped
project's, without its admin and its pages to log in otherwise than by a password.
"""

from csp.constants import UNSAFE_INLINE
from csp.decorators import csp_update
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path
from django.views.generic import RedirectView, TemplateView
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from hitl.api import printed_urls
from hitl.http import languages
from hitl.rendering import templating
from hitl.views import probes

# Swagger UI writes its styles into the page
reference = csp_update({"style-src": [UNSAFE_INLINE]})(
    SpectacularSwaggerSplitView.as_view(
        url_name="schema", permission_classes=[], http_method_names=["get", "head"]
    )
)
# with it a phone keeps the inbox as an app; nothing of it works without the server
manifest = TemplateView.as_view(
    template_name="manifest.webmanifest",
    content_type="application/manifest+json",
    http_method_names=["get", "head", "options"],
)
login = LoginView.as_view(
    template_name=f"{templating.OWN}registration/login.html", redirect_authenticated_user=True
)
shared = [
    # each is looked at in turn, so what programs ask for stands before a hundred pages
    path("favicon.ico", RedirectView.as_view(url="/static/favicon.svg"), name="favicon"),
    path("api/v1/", include("runs.urls")),
    path("api/v1/", include("hitl.api.urls")),
    path("", include("hitl.urls")),
    path("language", languages.change, name="set_language"),
    path("words.js", languages.words, name="words"),
    path("api/agent-work-orders/", include("hitl.api.printed_urls")),  # a second set
    path("api/agent-work-orders", printed_urls.work_orders),
    path("api/schema/", SpectacularAPIView.as_view(permission_classes=[]), name="schema"),
    path("api/reference/", reference, name="reference"),
    path("livez", probes.livez, name="livez"),
    path("readyz", probes.readyz, name="readyz"),
    path("manifest.webmanifest", manifest, name="manifest"),
    path("metrics", probes.scrape, name="metrics"),
]
"""What every project serves."""
urlpatterns = [
    *shared,
    path("login", login, name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
]
