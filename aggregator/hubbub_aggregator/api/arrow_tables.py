"""Answers as an Arrow IPC stream: the columns of the CSV, typed. A missing value is null."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from hubbub_aggregator.api.tables import COLUMNS, blocks, columns_of_empty

if TYPE_CHECKING:
    from hubbub_aggregator.models.base import ResponseModel

__all__ = ["ARROW_TYPE", "to_arrow"]

ARROW_TYPE = "application/vnd.apache.arrow.stream"


def to_arrow(answer: ResponseModel) -> bytes:
    """The rows of an answer as one record batch."""
    import nanoarrow  # a fiftieth of pyarrow's size, and it only writes
    from nanoarrow.ipc import StreamWriter

    columns = _columns(answer)
    types = {
        "text": nanoarrow.string(),
        "number": nanoarrow.float64(),
        "count": nanoarrow.int64(),
        "flag": nanoarrow.bool_(),
    }
    fields = {name: types[COLUMNS[name]] for name in columns}
    batch = nanoarrow.c_array_from_buffers(
        nanoarrow.struct(fields, nullable=False),
        length=len(next(iter(columns.values()))),
        buffers=[None],
        children=[nanoarrow.c_array(cells, fields[name]) for name, cells in columns.items()],
    )
    written = io.BytesIO()
    with StreamWriter.from_writable(written) as stream:
        stream.write_array(batch)
    return written.getvalue()


def _columns(answer: ResponseModel) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    for block in blocks(answer):
        columns = columns or {name: [] for name in block.columns}
        rows = list(block.rows)
        own = dict(zip(block.names, zip(*rows, strict=True), strict=True))
        shared, silent = {**block.left, **block.right}, [None] * (len(rows) - 1)
        for name, cells in columns.items():
            if name in own:
                cells.extend(own[name])
            elif name in shared:
                cells.extend([shared[name]] * len(rows))
            else:
                cells.extend([block.prose[name], *silent])
    return columns or {name: [] for name in columns_of_empty(answer)}
