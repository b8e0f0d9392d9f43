"""Django: one process migrates, locks that end with a transaction, and a page in the admin.

>>> # INSTALLED_APPS = ["locknut.contrib.django", ...]       # first, for `migrate --with-lock`
>>> # LOCKNUT_URL = "redis://cache.example"
>>> # with atomic_lock("stock:7", timeout=5): ...            # commits, then unlocks

It needs the extra `django`.
"""

from locknut.contrib.django.configured_locks import locks
from locknut.contrib.django.transaction_locks import atomic_lock, lock_transaction

__all__ = ["atomic_lock", "lock_transaction", "locks"]
