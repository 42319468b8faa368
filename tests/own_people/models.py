"""People without a username, as many projects have them."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.db import models


class People(BaseUserManager["Person"]):
    def create_superuser(self, email: str, password: str, **more: Any) -> Person:
        person = Person(email=email, is_staff=True, is_superuser=True, **more)
        person.set_password(password)
        person.save()
        return person


class Person(AbstractBaseUser, PermissionsMixin):
    email = models.EmailField(unique=True)
    is_active = models.BooleanField(default=True)
    is_staff = models.BooleanField(default=False)
    USERNAME_FIELD = "email"
    objects = People()

    class Meta:
        app_label = "own_people"

    def __str__(self) -> str:
        return self.email

    def get_full_name(self) -> str:
        return self.email.partition("@")[0].title()
