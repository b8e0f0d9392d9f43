"""The two colours: how threads and how an event loop wait, signal, guard and finish."""
