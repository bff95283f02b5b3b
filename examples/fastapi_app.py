"""A photo server that people host themselves. It reports to its makers if the administrator has agreed.

PHOTOS_TELEMETRY=yes uvicorn examples.fastapi_app:app
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

from hubbub_client import Client

CODEBOOK = Path(__file__).with_name("metrics.toml")  # better the codebook.json of `hubbub codebook compile`


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    began = time.monotonic()
    app.state.telemetry = client = Client(
        os.environ.get("PHOTOS_SHUFFLER", "http://127.0.0.1:8701"),
        trust=os.environ.get("PHOTOS_TRUST"),  # may be unset for an address on this machine only
        consent=lambda: os.environ.get("PHOTOS_TELEMETRY") == "yes",  # the administrator's answer
        state_dir=os.environ.get("PHOTOS_STATE", "photos-state"),
        codebook=os.environ.get("PHOTOS_CODEBOOK", CODEBOOK),  # so that /privacy has the questions before the answer
    )
    client.record("startup_ms", 1000 * (time.monotonic() - began))
    yield
    await asyncio.to_thread(client.close)  # takes at most two seconds, without blocking the event loop


app = FastAPI(lifespan=lifespan)


@app.put("/theme/{name}")
async def choose_theme(name: str, request: Request) -> dict[str, str]:
    """Set the theme of this server. `record` is quick enough for the event loop: it waits for no network or disk."""
    request.app.state.telemetry.record("theme", name)
    request.app.state.telemetry.record("dark_mode", name == "dark")
    return {"theme": name}


@app.get("/privacy")
def privacy(request: Request) -> PlainTextResponse:
    """Show what will be sent, why it is deniable, and what was spent so far."""
    client: Client = request.app.state.telemetry
    return PlainTextResponse(f"{client.preview()}\n{client.ledger()}")


@app.delete("/privacy")
def opt_out(request: Request) -> dict[str, bool]:
    """Switch off for good: this survives updates, and holds for every process that shares the directory."""
    return {"off": request.app.state.telemetry.disable()}
