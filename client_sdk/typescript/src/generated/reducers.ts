// Written by `python -m scripts.make_typescript` from the Python code. Do not edit.

export const REDUCERS: Record<string, string> = {
  boolean: "first last max min most_common reservoir",
  category: "first last most_common reservoir",
  mean: "mean first last sum max min median count reservoir",
  distribution: "mean first last sum max min median count reservoir",
  count: "sum first last max min count reservoir",
};
