from django.contrib import admin
from django.urls import include, path

from hitl.host import urls
from project.identity.login import of_admin

admin.autodiscover()  # in `project.desk`'s place
urlpatterns = [
    *urls.shared,
    path("", include("project.identity.urls")),
    path("admin/login/", of_admin),
    path("admin/", admin.site.urls),
]
handler500 = "hitl.host.unavailable.server_error"
