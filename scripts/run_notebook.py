"""Runner of a notebook without Jupyter: `python -m scripts.run_notebook FILE` renews its outputs.

Cells are run from the top in one namespace, as a kernel would. It asks the aggregator at HUBBUB_ADDRESS. Tests run the
notebook in the same way, against an aggregator of their own.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

__all__ = ["main", "run"]


def run(notebook: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """The outputs of each code cell, in the form that the notebook's file has them."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, start=1):
        tree = ast.parse("".join(cell["source"]))
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        said = StringIO()
        with redirect_stdout(said):
            exec(compile(tree, f"cell {number}", "exec"), names)  # noqa: S102  a notebook of this tree
            value = None
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)  # noqa: S307  likewise
        outputs: list[dict[str, Any]] = []
        if said.getvalue():
            outputs.append({"output_type": "stream", "name": "stdout", "text": said.getvalue().splitlines(True)})
        if value is not None:
            shown = {"data": _drawn(value), "metadata": {}, "execution_count": number}
            outputs.append({"output_type": "execute_result", **shown})
        yield outputs


def _drawn(value: Any) -> dict[str, Any]:
    """A value as a notebook shows it: a chart as SVG, a table as HTML, anything as text."""
    import altair

    if isinstance(value, altair.TopLevelMixin):
        import vl_convert

        return {"image/svg+xml": vl_convert.vegalite_to_svg(value.to_dict()).splitlines(True), "text/plain": ["chart"]}
    plain = {"text/plain": repr(value).splitlines(True)}
    return {"text/html": value._repr_html_().splitlines(True), **plain} if hasattr(value, "_repr_html_") else plain


def main(path: Path) -> None:
    """Run the notebook and write its outputs into it."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    outputs = run(notebook)
    for number, cell in enumerate([cell for cell in notebook["cells"] if cell["cell_type"] == "code"], start=1):
        cell["outputs"], cell["execution_count"] = next(outputs), number
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"renewed {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
