"""HTTP for both services: listeners, connection limits, tokens, health, problem documents."""
