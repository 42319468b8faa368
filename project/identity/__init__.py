"""How people log in, by django-allauth: second factors, and forgotten passwords."""
