"""The identity providers, one process of each kind for all modules."""

from __future__ import annotations

import pytest

from tests.servers.certificates import pair
from tests.servers.providers import HERE, OidcProvider, SamlProvider, running, use


@pytest.fixture(scope="session")
def oidc_running():
    """It requires PKCE, and signs with a key of its own."""
    with running("oidc-provider", "oidc_provider.mjs", f"{HERE}{OidcProvider.back}") as address:
        yield OidcProvider(address)


@pytest.fixture(scope="session")
def saml_running(tmp_path_factory):
    paths = pair(tmp_path_factory.mktemp("saml"), "provider")
    words = [*map(str, paths), f"{HERE}{SamlProvider.back}"]
    with running("samlp", "saml_provider.mjs", *words) as address:
        yield SamlProvider(address)


@pytest.fixture
def oidc(settings, oidc_running):
    use(settings, oidc_running)
    return oidc_running


@pytest.fixture
def saml(settings, saml_running):
    use(settings, saml_running)
    return saml_running


@pytest.fixture
def both(settings, oidc_running, saml_running):
    use(settings, oidc_running, saml_running)
    return oidc_running, saml_running
