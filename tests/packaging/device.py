"""A device, run by a Python that has the wheel and its dependencies. Its arguments are an address and an anchor.

It prints what it found as JSON. Nothing of this tree may be imported here.
"""

import importlib.util
import json
import sys

from hubbub_client import Client

address, trust = sys.argv[1:]
client = Client(address, trust=trust, consent=True, state_dir="state")
assert client.flush(timeout=30)
outcome = client.record("dark_mode", True)
client.record("startup_ms", 812.0)
preview = str(client.preview())
sent = client.flush(timeout=30, now=True)
stats = client.stats()
client.close()
server = [
    "altair",
    "click",
    "fastapi",
    "httpx2",
    "jinja2",
    "numpy",
    "pydantic",
    "redis",
    "scipy",
    "starlette",
    "uvicorn",
]
sys.stdout.write(
    json.dumps(
        {
            "from": importlib.util.find_spec("hubbub_client").origin,  # type: ignore[union-attr]  # it was imported above
            "importable": [name for name in server if importlib.util.find_spec(name)],
            "third": sorted(
                name for name in sys.modules if name.partition(".")[0] not in {*sys.stdlib_module_names, "__main__"}
            ),
            "outcome": outcome.value,
            "preview": preview,
            "sent": sent,
            "stats": stats,
        }
    )
)
