"""Programs that time kerasrec and the programs that a user would write instead.

README.md has the figures, and results/ all tables. `python -m benchmarks SECTION` runs a section of
`__main__.SECTIONS`; each other module with a `main` is a separate command, such as
`python -m benchmarks.loops`.

How a section compares implementations:

- `comparison.py` has the options, and runs all cases. `trees.py` makes and reads trees,
  `forests.py` makes trees of one size and form, `epochs.py` reads a treebank. All implementations
  get the same batches (`batch.py`) and weights (`model.py`).
- `turns.py` starts each implementation in a process (`process.py`, `timed_baseline.py`), since the
  frameworks cannot all be loaded in one, and some need another Python. `agreement.py` compares
  their results with those of eager recursion; `versions.py` lists their versions.
- Implementations take turns, and sleep while others run. The first turn traces and compiles. A turn
  runs 256 trees, or four batches if these have more trees; implementations that take seconds for
  one tree run fewer, and their time is scaled by tree nodes.
- `medians.py` and `fits.py` summarize times. `baseline_rows.py` and `figures.py` make columns and
  plots, `report.py` tables. `speed_report.py` and `convergence_report.py` show the results of two
  sections; `batch_sizes.py` and `folding.py` show `speed` in other ways (`speed_rows.py`).

`baselines/` has a file for each implementation, and shared ones for each framework. `papers/` has a
file for each paper's figures and for each table of `papers.md`. `one_step.py` is shared by
`profile.py`, `hlo.py` and `copies.py`.
"""
