"""What `locknut top` and `locknut dash` know: one place observed for any number of viewers."""
