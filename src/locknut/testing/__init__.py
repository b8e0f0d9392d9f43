"""For those who test with Locknut, or test Locknut: simulator, history checker, suites."""
