"""For those who test with Holdfast, or test Holdfast: simulator, history checker, suites."""
