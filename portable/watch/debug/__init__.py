"""Debug builds: bounds, divisors, scratch, NaN."""
