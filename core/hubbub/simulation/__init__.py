"""Simulations: the results of a codebook for data whose truth is known. NOT private; no device can import it.

rng = InsecureBulkRandomness(seed)
crowd = Crowd([Column.of(metric, values)])            # one value per device; None: nothing was recorded
weights = crowd.draw(1_000_000, rng)                  # how many devices each row stands for
column = crowd.columns[0]
trial = run(column, column.held(weights), rng)        # one period, as the aggregator would publish it
scores = Scores(metric); scores.add(trial)            # error, recall and coverage over many trials
"""

from hubbub.simulation.randomness import InsecureBulkRandomness, InsecureRandomness
from hubbub.simulation.rows_as_devices import Column, Crowd
from hubbub.simulation.trial import Scores, Trial, run

__all__ = ["Column", "Crowd", "InsecureBulkRandomness", "InsecureRandomness", "Scores", "Trial", "run"]
