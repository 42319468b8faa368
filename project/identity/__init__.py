"""How people log in, by django-allauth: passwords, second factors, and identity providers."""
