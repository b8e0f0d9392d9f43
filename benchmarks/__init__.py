"""How fast Locknut is, beside the limit and beside others: ratios inside one run, never alone."""
