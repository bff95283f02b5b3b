"""The fewest settings that Django needs, and five for telemetry."""

import os
from pathlib import Path

SECRET_KEY = os.environ.get("PHOTOS_SECRET", "only for this example")
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "examples.django_site.urls"
INSTALLED_APPS = ["examples.django_site.apps.TelemetryConfig"]
USE_TZ = True

TELEMETRY_SHUFFLER = os.environ.get("PHOTOS_SHUFFLER", "http://127.0.0.1:8701")
TELEMETRY_TRUST = os.environ.get("PHOTOS_TRUST")  # may be unset for an address on this machine only
TELEMETRY_CONSENT = os.environ.get("PHOTOS_TELEMETRY") == "yes"
TELEMETRY_STATE = os.environ.get("PHOTOS_STATE", "photos-state")
TELEMETRY_CODEBOOK = os.environ.get("PHOTOS_CODEBOOK", Path(__file__).parents[1] / "metrics.toml")
