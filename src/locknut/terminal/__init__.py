"""`locknut top`: locks in a terminal, live. It needs the extra `tui`."""
