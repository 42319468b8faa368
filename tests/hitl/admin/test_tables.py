"""The admin: what operators write: repositories, templates, tokens, people."""

from __future__ import annotations

import json
import re

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import Permission, User
from django.urls import reverse
from django.utils.html import escape

from checkpoints.admin.base import ReadOnlyAdmin
from checkpoints.admin.lists import KeysetChangeList
from hitl.models import ApiToken
from runs import definitions
from runs.models import Repository, Template
from runs.models.frequency import PROMISES
from tests.doors.admin import ask, client_of, confirm, list_of, page_of, staff
from tests.doors.admin import desk as desk
from tests.doors.admin import one_of_each as one_of_each
from tests.doors.admin import root as root
from tests.worlds.repositories import make_repository

pytestmark = pytest.mark.django_db


def repository_fields(url, **fields):
    usual = {"push_policy": "asked", "pull_request_policy": "never"}
    return {
        "name": "one",
        "url": str(url),
        "check_command": '["pytest", "-q"]',
        "author": "",
        **usual,
        **fields,
    }


def test_a_check_command_is_a_list_of_words(templates, desk, tmp_path, subtests):
    make_repository(tmp_path / "one", {"a.py": "a = 1\n"})
    for command in [
        '"pytest -q"',
        '{"a": 1}',
        '["a", 1]',
        '[""]',
        '["a\\u0000"]',
        "null",
        "[not json",
        '["\\ud800"]',
        "[" * 9999,
    ]:
        with subtests.test(ascii(command)[:60]):
            response = desk.post(
                reverse("admin:runs_repository_add"),
                repository_fields(tmp_path / "one", check_command=command),
            )
            assert response.status_code == 200
            assert not Repository.objects.exists()


def test_a_repository_is_added_in_its_normal_form_and_refused_outside_of_the_allowed_folders(
    templates, desk, tmp_path
):
    make_repository(tmp_path / "one", {"a.py": "a = 1\n"})
    url = reverse("admin:runs_repository_add")
    for bad in (
        "/etc",
        "file:///etc/passwd",
        "https://user:pw@github.com/a/b",
        "ext::sh -c id",
        "https://evil.example/x",
    ):
        assert desk.post(url, repository_fields(bad)).status_code == 200
    assert desk.post(url, repository_fields(f"{tmp_path}/./one/")).status_code == 302
    repository = Repository.objects.get()
    assert (repository.url, repository.check_command) == (
        str((tmp_path / "one").resolve()),
        ["pytest", "-q"],
    )
    assert desk.post(url, repository_fields(tmp_path / "one")).status_code == 200
    assert Repository.objects.count() == 1


def template_fields(template, **changed):
    values = {
        "title": template.title,
        "description": template.description,
        "steps": json.dumps(template.steps),
        "input_schema": json.dumps(template.input_schema),
        **changed,
    }
    return {**values, **({"needs_repository": "on"} if template.needs_repository else {})}


def test_editing_a_template_makes_a_new_version_and_keeps_the_old_one(templates, desk, root):
    old = definitions.current("writing")
    steps = [{**step, "pause_after": False} for step in old.steps]
    response = desk.post(
        page_of("runs_template", old.pk),
        template_fields(old, steps=json.dumps(steps), title="Written"),
    )
    new = definitions.current("writing")
    assert response["Location"] == page_of("runs_template", new.pk)
    assert (new.version, new.title, new.steps, new.created_by) == (
        old.version + 1,
        "Written",
        steps,
        root,
    )
    old.refresh_from_db()
    assert (old.version, old.title) == (1, "Writing")
    # an old version is only looked at
    assert 'name="steps"' not in desk.get(page_of("runs_template", old.pk)).text
    assert 'name="steps"' in desk.get(page_of("runs_template", new.pk)).text


def test_a_template_that_cannot_be_saved_says_why_on_the_form(templates, desk, subtests):
    old = definitions.current("writing")
    count = Template.objects.count()
    for field, value, words in [
        ("steps", '[{"step_template_slug": "nowhere"}]', "There is no step template"),
        ("steps", "[]", "required"),
        ("steps", "[oops", "valid JSON"),
        ("steps", '[{"a": NaN}]', "cannot be kept"),
        ("steps", '[{"a": "\\u0000"}]', "cannot be kept"),
        ("steps", '{"a": 1}', "each an object"),
        ("input_schema", '{"type": "nonsense"}', "No JSON Schema that can be used"),
    ]:
        with subtests.test(ascii(field)[:60]):
            response = desk.post(
                page_of("runs_template", old.pk), template_fields(old, **{field: value})
            )
            assert response.status_code == 200
            assert words in response.text
            assert Template.objects.count() == count


def test_an_edit_of_a_version_that_is_no_longer_the_newest_is_refused(templates, desk):
    old = definitions.current("writing")
    definitions.edit_template("writing", title="Meanwhile")
    response = desk.post(page_of("runs_template", old.pk), template_fields(old, title="Too late"))
    assert "Version 2 was saved meanwhile" in response.text
    assert "Too late" in response.text
    assert definitions.current("writing").title == "Meanwhile"


def test_a_new_token_is_told_once_and_works(desk, ana, api):
    response = desk.post(
        reverse("admin:hitl_apitoken_add"),
        {"user": ana.pk, "name": "ci", "scope": "read"},
        follow=True,
    )
    token = ApiToken.objects.get()
    [secret] = {word for word in response.text.replace("<", " ").split() if word.startswith("wst_")}
    assert ApiToken.digest_of(secret) == token.digest
    assert token.user == ana
    for url in (list_of("hitl_apitoken"), page_of("hitl_apitoken", token.pk)):
        page = desk.get(url).text
        assert secret not in page
        assert token.digest not in page


def test_a_token_is_revoked_but_neither_edited_nor_deleted(desk, ana):
    token, _ = ApiToken.make(ana, name="ci")
    assert desk.post(page_of("hitl_apitoken", token.pk), {"name": "other"}).status_code == 403
    assert (
        desk.post(
            reverse("admin:hitl_apitoken_delete", args=[token.pk]), {"post": "yes"}
        ).status_code
        == 403
    )
    assert "Revoke these tokens?" in ask(desk, "hitl_apitoken", "revoke", token).text
    token.refresh_from_db()
    assert token.revoked_at is None
    confirm(desk, "hitl_apitoken", "revoke", token)
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_staff_make_no_token_that_acts_as_somebody_else(root):
    max = staff("max", "hitl.view_apitoken", "hitl.add_apitoken")
    client, url = client_of(max), reverse("admin:hitl_apitoken_add")
    assert client.post(url, {"user": root.pk, "name": "ci", "scope": "write"}).status_code == 200
    assert not ApiToken.objects.exists()
    assert client.post(url, {"user": max.pk, "name": "ci", "scope": "write"}).status_code == 302
    assert ApiToken.objects.get().user == max


def test_staff_who_manage_people_give_no_rights_and_take_over_nobody_who_has_some(root, ana, team):
    max = staff("max", "auth.view_user", "auth.change_user", "auth.view_group", "auth.change_group")
    client = client_of(max)
    fields = {
        "username": "ana",
        "is_active": "on",
        "is_superuser": "on",
        "is_staff": "on",
        "first_name": "Anna",
    }
    client.post(
        page_of("auth_user", ana.pk),
        {**fields, "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"},
    )
    ana.refresh_from_db()
    assert (ana.first_name, ana.is_superuser, ana.is_staff) == ("Anna", False, False)
    assert list(ana.groups.all()) == [team]
    assert client.post(page_of("auth_user", root.pk), fields).status_code == 403
    passwords = {"password1": "a new long one", "password2": "a new long one"}
    assert (
        client.post(
            reverse("admin:auth_user_password_change", args=[root.pk]), passwords
        ).status_code
        == 403
    )
    everything = Permission.objects.first()
    client.post(page_of("auth_group", team.pk), {"name": "renamed", "permissions": [everything.pk]})
    team.refresh_from_db()
    assert team.name == "renamed"
    assert not team.permissions.exists()


def test_a_superuser_makes_people(desk):
    password = "a long enough password"
    fields = {
        "username": "new",
        "usable_password": "true",
        "password1": password,
        "password2": password,
    }
    assert desk.post(reverse("admin:auth_user_add"), fields).status_code == 302
    assert User.objects.get(username="new").check_password(password)


def test_an_operator_sets_how_often_and_how_long_and_reads_what_then_holds(templates, desk):
    """S0-65."""
    template = definitions.current("writing-quick")
    address = reverse("admin:runs_template_change", args=[template.pk])
    text = desk.get(address).content.decode()
    assert all(escape(words) in text for words in PROMISES.values())
    form = {
        "title": template.title, "description": "", "steps": json.dumps(template.steps),
        "input_schema": "{}", "frequency": "failure",
        "retention": '{"days": 30, "count": null}', "size_budget": "1000000",
    }  # fmt: skip
    assert desk.post(address, {**form, "retention": '{"days": -1}'}).status_code == 200, (
        "refused, with the form"
    )
    assert desk.post(address, form).status_code == 302
    saved = definitions.current("writing-quick")
    assert (saved.frequency, saved.retention, saved.size_budget) == (
        "failure",
        {"days": 30, "count": None},
        1_000_000,
    )


def test_rows_that_are_written_by_columns_are_as_unfold_writes_them(one_of_each, desk, monkeypatch):
    """With a filter, so that the links into the list's rows keep it."""

    def bare(url: str) -> str:
        page = re.sub(
            r'nonce="[^"]*"|name="csrfmiddlewaretoken" value="\w+"', "", desk.get(url).text
        )
        return re.sub(r">\s+<", "><", page)

    lists = {
        list_of(f"{model._meta.app_label}_{model._meta.model_name}"): of_model
        for model, of_model in site._registry.items()
        if isinstance(of_model, ReadOnlyAdmin) and tuple(of_model.ordering) == ("-pk",)
    }
    lists[list_of("checkpoints_checkpoint") + "?size=1k"] = lists[list_of("checkpoints_checkpoint")]
    ours = {url: bare(url) for url in lists}
    assert sum('data-label="' in page for page in ours.values()) > 12
    monkeypatch.setattr(KeysetChangeList, "rows", [])
    assert [url for url, page in ours.items() if page != bare(url)] == []
