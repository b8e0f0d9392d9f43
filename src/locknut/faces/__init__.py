"""What both faces share: the parts of a Lock, a Locks and a Lease that never wait, and messages."""
