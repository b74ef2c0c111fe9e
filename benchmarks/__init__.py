"""Speed and memory, as ratios of two sides that take turns within one process.

`python -m benchmarks` measures everything; `make bench` also writes `results/performance.md`.
"""

from shiftproof.paper.measure import quieten_profiler

quieten_profiler()
