"""Real functions that the demo, the comparison tests and the benchmarks share."""
