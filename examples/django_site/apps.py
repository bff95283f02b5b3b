"""One client per process, made when Django is ready. With `gunicorn --preload` the workers inherit it."""

from django.apps import AppConfig
from django.conf import settings

from hubbub_client import Client


class TelemetryConfig(AppConfig):
    name = "examples.django_site"
    label = "telemetry"
    client: Client

    def ready(self) -> None:
        self.client = Client(
            settings.TELEMETRY_SHUFFLER,
            trust=settings.TELEMETRY_TRUST,
            consent=lambda: settings.TELEMETRY_CONSENT,  # the administrator's answer, asked each time
            state_dir=settings.TELEMETRY_STATE,
            codebook=settings.TELEMETRY_CODEBOOK,  # so that /privacy has the questions before the answer
        )
