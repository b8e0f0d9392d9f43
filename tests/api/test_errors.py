"""Errors: their kinds, what they carry, that they travel, and that no secret is in them."""

from __future__ import annotations

import copy
import importlib
import logging
import pickle
import pkgutil
import traceback

import pytest

import locknut
from locknut import errors
from locknut.urls import parse

for module in pkgutil.walk_packages(locknut.__path__, "locknut."):
    if module.name.startswith("locknut.backends"):
        importlib.import_module(module.name)


def kinds(root: type[errors.LocknutError]) -> list[type[errors.LocknutError]]:
    """All there are: an engine may have some of its own."""
    return [root, *(kind for each in root.__subclasses__() for kind in kinds(each))]


KINDS = kinds(errors.LocknutError)
SECRET = "hunter2"


@pytest.mark.parametrize("kind", KINDS)
def test_they_pickle_and_copy(kind: type[errors.LocknutError]) -> None:
    error = kind("what happened", key="x", backend="memory")
    error.add_note("and more")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert str(again) == str(error) == "what happened [lock 'x' on memory]"
        assert (again.key, again.backend) == ("x", "memory")
        assert again.__notes__ == ["and more"]


@pytest.mark.parametrize(
    ("kind", "also"),
    [
        (locknut.AcquireTimeout, TimeoutError),
        (locknut.NotHeld, RuntimeError),
        (locknut.DeadlockDetected, RuntimeError),
        (locknut.ConfigurationError, ValueError),
        (locknut.BackendUnavailable, ConnectionError),
        (locknut.BackendUnavailable, locknut.BackendError),
    ],
)
def test_they_are_also_what_python_calls_them(kind: type, also: type) -> None:
    assert issubclass(kind, also)
    assert issubclass(kind, locknut.LocknutError)


def test_they_say_which_lock_and_which_engine(locks: locknut.Locks) -> None:
    with pytest.raises(locknut.NotHeld) as caught:
        locks.lock("x").release()
    assert str(caught.value).endswith("[lock 'x' on memory]")


@pytest.mark.parametrize(
    "url",
    [
        f"nosuch://me:{SECRET}@host/path",
        f"memory://me:{SECRET}@host?wrong=1",
        f"memory:?password={SECRET}",
        f"me:{SECRET}@host",
        f"//me:{SECRET}@host",
        f"redis://me:{SECRET}@host/0#fragment",
        f"memory:?a={SECRET}&a={SECRET}",
        f"redis://me:{SECRET}@[::1",
        f"redis://:{SECRET}@host:notaport/",
        f"redis//me:{SECRET}",
        f"redis//{SECRET}@host",
        f"redis:/{SECRET}@host",
        f"redis://me?{SECRET}@host",
        *(
            f"{scheme}://me:{password}@host:1/0"
            for scheme in ("redis", "redlock", "zookeeper", "etcd", "memcached", "nosuch")
            for password in (
                f"a/{SECRET}", f"{SECRET}/b", f"1/{SECRET}", f"a?{SECRET}", f"{SECRET}?b",
                f"a?{SECRET}=b", f"1?{SECRET}", f"a#{SECRET}", f"{SECRET}#b",
                f"a@b/{SECRET}", f"a@b?{SECRET}", f"a@b?c={SECRET}", f"?{SECRET}=",
            )
        ),
        *(
            f"{scheme}{rest}"
            for scheme in ("redis", "redlock", "zookeeper", "etcd", "memcached", "mysql", "nosuch")
            for rest in (
                f"://me:{SECRET}", f"://:{SECRET}", f"://me:{SECRET}/1", f"://me:{SECRET},host/1",
                f":me:{SECRET}@host/1", f":/me:{SECRET}@host/1", f":///me:{SECRET}@host/1",
                f"://me:99999{SECRET}", f"://h,me:{SECRET}",
            )
        ),
    ],
)  # fmt: skip
def test_no_secret_of_a_url_is_told(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(locknut.ConfigurationError) as caught:
        locknut.connect(url)
    told = "".join(traceback.format_exception_only(caught.value))
    assert SECRET not in told
    assert SECRET not in caplog.text
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("sign", ["/", "?"])
def test_a_password_with_a_sign_that_ends_the_host_is_named_as_the_reason(sign: str) -> None:
    with pytest.raises(locknut.ConfigurationError, match="%2F") as caught:
        locknut.connect(f"redis://me:ab{sign}cd@host:1/0")
    assert "%3F" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "zookeeper://h:1/jobs%40home",
        "zookeeper://h/jobs@home",
        "zookeeper://me:word@h/jobs%40home",
        "redis://h:1?id=a@b",
        "redis://me:word@h?id=a@b",
    ],
)
def test_an_at_sign_elsewhere_is_no_login(url: str) -> None:
    locknut.connect(url).close()


@pytest.mark.parametrize("scheme", ["redis", "zookeeper", "etcd", "memcached", "mysql"])
def test_digits_that_are_no_port_are_not_told(scheme: str) -> None:
    """They are a password where somebody forgot the host."""
    with pytest.raises(locknut.ConfigurationError, match=r"[pP]ort") as caught:
        locknut.connect(f"{scheme}://me:8642097/{'x' if scheme == 'mysql' else ''}")
    assert "8642097" not in str(caught.value)


def test_a_url_taken_apart_does_not_show_its_secret() -> None:
    url = parse(f"redis://me:{SECRET}@host:1/0?password={SECRET}")
    assert SECRET not in repr(url)
    assert SECRET not in url.text
    assert "host:1" in url.text


def test_unknown_options_are_refused_by_name() -> None:
    with pytest.raises(locknut.ConfigurationError, match="'tymeout'"):
        locknut.connect("memory:?tymeout=5")


def test_an_unknown_scheme_lists_the_known() -> None:
    with pytest.raises(locknut.ConfigurationError, match="memory"):
        locknut.connect("nosuch:")
