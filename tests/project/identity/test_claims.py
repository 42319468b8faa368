"""What an OpenID Connect provider says in two places: the ID token, and `userinfo`."""

from __future__ import annotations

from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group, User
from hypothesis import given
from hypothesis import strategies as st

from hitl.models import ClaimedGroup
from project.identity import linking
from project.identity.claims import NAMES, ClaimsDisagree, joined
from tests.worlds.people import person

VICTIM, MALLORY = "victim@example.org", "mallory@example.org"
ABSENT = object()
ADDRESSES = st.sampled_from([VICTIM, "Victim@Example.org", MALLORY, "", None, 7, [VICTIM], ABSENT])
VERIFIED = st.sampled_from([True, False, "true", "false", 1, None, ABSENT])
NAMED = st.sampled_from(["mia", "", None, 7, ["mia"], ABSENT])
GROUPS = st.sampled_from([["ops"], [], "ops", None, 7, ABSENT])
CLAIMS = st.fixed_dictionaries(
    {
        "email": ADDRESSES,
        "email_verified": VERIFIED,
        "groups": GROUPS,
        "amr": st.sampled_from([["pwd"], ["mfa"], ABSENT]),
        "acr": st.sampled_from(["0", "1", ABSENT]),
        "userinfo": st.sampled_from([{"sub": "victim", "email": VICTIM}, ABSENT]),
        "id_token": st.sampled_from([{"sub": "victim", "email": VICTIM}, ABSENT]),
        **dict.fromkeys(NAMES, NAMED),
    }
).map(lambda claims: {name: value for name, value in claims.items() if value is not ABSENT})


def same(one, other):
    return str(one).lower() == str(other).lower()


@given(signed=CLAIMS, told=CLAIMS, asked=st.booleans())
def test_what_belongs_together_comes_from_one_of_the_two(signed, told, asked):
    """Issue 30, 6. An address is as verified as one of the two says of that address; neither the
    other one nor anything within the claims speaks against it.
    """
    signed |= {"sub": "m1"}
    told = {**told, "sub": "m1"} if asked else {}
    sources = [source for source in (signed, told) if source.get("email")]
    naming = [source for source in sources if isinstance(source["email"], str)]
    try:
        said = joined(signed, told, groups="groups")
    except ClaimsDisagree:
        one, other = naming
        verified = one.get("email_verified"), other.get("email_verified")
        assert not same(one["email"], other["email"]) or (
            None not in verified and not same(*verified)
        )
        return
    assert said["sub"] == "m1"
    assert set(said) <= {"sub", "email", "email_verified", "groups", *NAMES}
    pairs = [(source["email"], source.get("email_verified")) for source in naming]
    assert (said["email"], said["email_verified"]) in (pairs or [("", None)])
    assert all(same(email, said["email"]) for email, _ in pairs)
    assert all(verified in (None, said["email_verified"]) or same(verified, said["email_verified"])
               for _, verified in pairs)  # fmt: skip
    assert said["groups"] == (signed if "groups" in signed else told).get("groups")
    assert all(isinstance(said[name], str) for name in NAMES if name in said)


def test_userinfo_of_somebody_else_is_refused():
    with pytest.raises(ClaimsDisagree, match="somebody else"):
        joined({"sub": "m1"}, {"sub": "victim"}, groups="groups")
    with pytest.raises(ClaimsDisagree, match="somebody else"):
        joined({"sub": "m1"}, {"email": VICTIM}, groups="groups")


def test_no_claim_of_groups_takes_the_place_of_who_it_is():
    said = joined({"sub": "m1"}, {"sub": "m1", "email": MALLORY}, groups="email")
    assert said["email"] == MALLORY
    assert joined({"sub": "m1"}, {}, groups="sub")["sub"] == "m1"


@pytest.fixture
def victim(db, settings):
    settings.WAYSTATION_SSO_LINK = ["oidc"]
    return person("victim", email=VICTIM)


DISAGREE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"email": VICTIM, "email_verified": False}, {"email": MALLORY, "email_verified": True}),
    ({"email": VICTIM}, {"email": MALLORY, "email_verified": True}),
    ({"email": MALLORY, "email_verified": True}, {"email": VICTIM, "email_verified": False}),
    ({"email": VICTIM, "email_verified": False}, {"email": VICTIM, "email_verified": True}),
    ({"email": VICTIM, "email_verified": True}, {"email": VICTIM, "email_verified": "false"}),
]


def test_two_places_that_say_different_things_of_an_address_disagree():
    for signed, told in DISAGREE:
        with pytest.raises(ClaimsDisagree):
            joined({"sub": "m1", **signed}, {"sub": "m1", **told}, groups="groups")


def test_an_address_is_not_verified_by_what_stands_beside_another_one(oidc, victim):
    """Issue 30, 6: this opened the victim's account."""
    signed, told = DISAGREE[0]
    oidc.tell("mallory", id_token=signed, **told)
    client, answer = oidc.log_in("mallory")
    assert answer.status_code == 403
    assert "This login did not hold" in answer.content.decode()
    assert client.get("/account/").status_code == 302
    assert not SocialAccount.objects.exists()
    assert User.objects.count() == 1


def test_one_place_says_both_or_the_address_is_verified_by_neither(settings):
    """Okta's ID token names the address alone; Cognito says `"true"` at userinfo."""
    settings.WAYSTATION_SSO_LINK = ["oidc"]
    inner = {"sub": "x", "email": VICTIM, "email_verified": True}
    both = {"email": VICTIM, "email_verified": True}
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"email_verified": True}, {"email": VICTIM}, ""),
        ({"email_verified": True}, {"email": VICTIM, "email_verified": False}, ""),
        ({"email": VICTIM}, {"email_verified": True}, ""),
        ({"userinfo": inner}, {"email": VICTIM}, ""),
        (both, {}, VICTIM),
        ({}, both, VICTIM),
        ({"email": VICTIM}, {**both, "email": "Victim@Example.org"}, VICTIM),
        (both, {**both, "email_verified": "true"}, VICTIM),
    ]
    for signed, told, vouched in cases:
        said = joined({"sub": "v1", **signed}, {"sub": "v1", **told}, groups="groups")
        assert linking.vouched("oidc", said) == vouched, (signed, told)


@pytest.mark.parametrize("verified", [True, None])
def test_an_address_that_either_place_verifies_opens_its_account(oidc, victim, verified):
    told = {"email": "Victim@Example.org", "email_verified": verified}
    oidc.tell("v1", id_token={"email": VICTIM}, **told)
    client, answer = oidc.log_in("v1")
    if verified:
        assert client.get("/account/").context["user"] == victim
    else:
        assert answer.status_code == 403
        assert "with your mail address already" in answer.content.decode()
        assert not SocialAccount.objects.exists()


def test_groups_are_those_of_the_id_token_where_it_names_some(oidc, db):
    for name in ("ops", "qa"):
        ClaimedGroup.objects.create(claim=name, group=Group.objects.create(name=name))
    oidc.tell("m1", id_token={"groups": ["ops"]}, groups=["qa"])
    oidc.log_in("m1")
    user = User.objects.get()
    assert [group.name for group in user.groups.all()] == ["ops"]
    oidc.tell("m1", id_token={"groups": []}, groups=["qa"])
    oidc.log_in("m1")
    assert not user.groups.exists()
    oidc.tell("m1", groups=["qa"])
    oidc.log_in("m1")
    assert [group.name for group in user.groups.all()] == ["qa"]
