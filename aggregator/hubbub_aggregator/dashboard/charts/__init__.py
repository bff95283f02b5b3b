"""Charts of a metric, drawn by hand as responsive SVG: a series, values in rows, a curve."""
