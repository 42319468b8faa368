"""Addresses below /api/v1/ that are none."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView

from hitl.decisions import services


class NoSuchRoute(APIView):
    """Every other address below /api/v1/, so that a program gets its 404 as a problem document
    too.
    """

    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise services.NotFound("There is nothing at this address.")


class NoSuchChannel(NoSuchRoute):
    """The address of a channel that is not switched on: its service logs nobody in."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
