"""The page of `hubbub up` and `hubbub demo` whose buttons report from the visitor's own browser."""
