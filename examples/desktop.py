"""A desktop app that asks once, shows what it reports, and can be told to stop. Without a display it prints that.

python examples/desktop.py
"""

import json
import os
import time
from pathlib import Path

from hubbub_client import Client

CODEBOOK = Path(__file__).with_name("metrics.toml")  # better the codebook.json of `hubbub codebook compile`
QUESTION = "May this app send randomized reports about its use? Each of them may be untrue. See Privacy for details."


class PhotoApp:
    """The app without its window."""

    def __init__(self, home: Path) -> None:
        began = time.monotonic()
        self._settings = home / "settings.json"
        self.telemetry = Client(
            os.environ.get("PHOTOS_SHUFFLER", "http://127.0.0.1:8701"),
            trust=os.environ.get("PHOTOS_TRUST"),
            consent=lambda: self.answer is True,  # asked each time: a change counts at once
            state_dir=home / "telemetry",
            codebook=os.environ.get("PHOTOS_CODEBOOK", CODEBOOK),  # so that the person can read it before the answer
        )
        self.telemetry.record("startup_ms", 1000 * (time.monotonic() - began))

    @property
    def answer(self) -> bool | None:
        """The person's answer. None means not asked yet, and counts as no."""
        return json.loads(self._settings.read_text())["telemetry"] if self._settings.exists() else None

    def agree(self, answer: bool) -> None:
        self._settings.parent.mkdir(parents=True, exist_ok=True)
        self._settings.write_text(json.dumps({"telemetry": answer}))
        _ = self.telemetry.enable() if answer else self.telemetry.disable()

    def choose_theme(self, name: str) -> None:
        self.telemetry.record("theme", name)
        self.telemetry.record("dark_mode", name == "dark")

    def privacy_page(self) -> str:
        return f"{self.telemetry.preview()}\n{self.telemetry.ledger()}"

    def quit(self) -> None:
        self.telemetry.close()


def show(app: PhotoApp) -> None:
    """A window with the question, the theme and the privacy page."""
    import tkinter as tk

    window = tk.Tk()
    page = tk.Label(window, justify="left")
    for label, act in {
        "Dark": lambda: app.choose_theme("dark"),
        "Light": lambda: app.choose_theme("light"),
        "Yes, send reports": lambda: app.agree(True),
        "No": lambda: app.agree(False),
        "Privacy": lambda: page.configure(text=app.privacy_page()),
    }.items():
        tk.Button(window, text=label, command=act).pack(fill="x")
    tk.Label(window, text=QUESTION).pack()
    page.pack()
    window.mainloop()


def main() -> None:
    app = PhotoApp(Path(os.environ.get("PHOTOS_STATE", Path.home() / ".photos")))
    if os.environ.get("DISPLAY"):
        show(app)
    else:
        app.choose_theme("dark")
        print(app.privacy_page())
    app.quit()


if __name__ == "__main__":
    main()
