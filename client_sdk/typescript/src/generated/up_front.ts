// Written by `python -m scripts.make_typescript` from the Python code. Do not edit.

export const LONGEST_VALUE = 200;
export const MOST_WAITING = 1000;
export const TICK = 30;
export const FIRST_CYCLE_AFTER = 1;
