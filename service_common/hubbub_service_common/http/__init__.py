"""HTTP for both services: listeners, limits, tokens, health and problem documents."""
