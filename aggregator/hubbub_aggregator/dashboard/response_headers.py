"""Headers of every page: a strict policy, and how the public view of a metric differs from it."""

from __future__ import annotations

__all__ = ["HEADERS", "public_headers"]

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Permissions-Policy": "interest-cohort=()",
}
_NO_FRAMES = "frame-ancestors 'none'"
_MAX_AGE = 300
"""Seconds for which anyone may keep what is public."""


def public_headers(frames: tuple[str, ...]) -> dict[str, str]:
    """Frames of these origins only. The picture may be used by any page, and both may be kept by any cache."""
    policy = HEADERS["Content-Security-Policy"]
    if frames:
        policy = policy.replace(_NO_FRAMES, f"frame-ancestors {' '.join(frames)}")
    return {
        "Content-Security-Policy": policy,
        "Cross-Origin-Resource-Policy": "cross-origin",
        "Cache-Control": f"public, max-age={_MAX_AGE}",
        "Vary": "Accept-Encoding",
    }
