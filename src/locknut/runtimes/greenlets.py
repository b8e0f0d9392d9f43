"""Where gevent makes greenlets of all threads: who gets an interrupt that came to one of ours.

A signal handler raises in whichever greenlet runs. gevent passes a KeyboardInterrupt or SystemExit
that ends a greenlet on to the main one. From a thread they never come that far, because `threading`
reports or drops what ends a thread. So whoever pressed Ctrl-C would have to press it again.
"""

from __future__ import annotations

import sys


def pass_on(interrupt: BaseException, /) -> bool:
    """Raise it in the main greenlet, as gevent does it; False where threads are no greenlets."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or not monkey.is_module_patched("threading"):
        return False
    hub = sys.modules["gevent"].get_hub()
    if not hub.main_hub:  # signals come to the main thread only: this is not one's
        return False
    hub.handle_system_error(type(interrupt), interrupt, interrupt.__traceback__)
    return True
