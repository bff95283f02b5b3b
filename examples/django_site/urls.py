"""A theme to choose, and a page that shows what is reported."""

from typing import cast

from django.apps import apps
from django.http import HttpRequest, HttpResponse
from django.urls import path

from examples.django_site.apps import TelemetryConfig
from hubbub_client import Client


def telemetry() -> Client:
    return cast(TelemetryConfig, apps.get_app_config("telemetry")).client


def choose_theme(request: HttpRequest, name: str) -> HttpResponse:
    telemetry().record("theme", name)
    telemetry().record("dark_mode", name == "dark")
    return HttpResponse(name)


def privacy(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{telemetry().preview()}\n{telemetry().ledger()}", content_type="text/plain")


urlpatterns = [path("theme/<str:name>", choose_theme), path("privacy", privacy)]
