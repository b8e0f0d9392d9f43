"""One folder per engine: what to send, what replies mean, and a thin connection per colour."""
