"""Browser events beside the page: errors, policy violations, requests, dialogs, cookies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Dialog, Page, Request, Response

__all__ = ["Watch", "told"]

told = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} blocked ${event.blockedURI} in ${event.sourceFile}`));
"""
"""A script for every page: violations of the policy are told to the console."""
_STAYS = ("data", "blob", "about")


@dataclass
class Watch:
    """Everything that one page does wrong, which belongs to one origin."""

    origin: str
    expected: tuple[int, ...] = ()
    """Statuses that a test asks for."""
    faults: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def attach(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"uncaught: {error}"))
        page.on("request", self._request)
        page.on("requestfailed", self._failed)
        page.on("response", self._response)
        page.on("dialog", self._dialog)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not self._is_expected(message.text):
            self.faults.append(f"console {message.type}: {message.text}")

    def _is_expected(self, text: str) -> bool:
        """Chromium also logs the status that a test asks for."""
        return any(f"the server responded with a status of {status}" in text for status in self.expected)

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)
        parts = urlsplit(request.url)
        if parts.scheme not in _STAYS and f"{parts.scheme}://{parts.netloc}" != self.origin:
            self.faults.append(f"request to elsewhere: {request.url}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # a navigation ends what is under way
            self.faults.append(f"failed: {request.url} {request.failure}")

    def _response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected:
            self.faults.append(f"status {response.status}: {response.url}")
        if response.headers.get("set-cookie"):
            self.faults.append(f"sets a cookie: {response.url}")

    def _dialog(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def found(self, page: Page) -> list[str]:
        """All that is wrong so far, also what the page has kept on this machine."""
        kept: list[str] = page.evaluate("() => [...Object.keys(localStorage), ...Object.keys(sessionStorage)]")
        cookies = [f"cookie: {cookie.get('name')}" for cookie in page.context.cookies(self.origin)]
        return self.faults + cookies + [f"kept: {name}" for name in kept]
