"""Write the tables of docs/reference/protocol.md from the code: python -m scripts.make_protocol_tables"""

from __future__ import annotations

from scripts.reference.protocol import PAGE, as_it_should_be

if __name__ == "__main__":
    PAGE.write_text(as_it_should_be(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote the tables of {PAGE.name}")
