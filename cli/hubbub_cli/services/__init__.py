"""Services and their state, for the commands that run or manage them."""
