"""Locks under the names and signatures of other libraries, so that one changed import is enough."""
