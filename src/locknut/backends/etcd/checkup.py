"""What is looked at to see whether locks are safe on an etcd: the version of each member, whether a
majority is there and agrees, and the alarms of the cluster.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from locknut.core.findings import Check, fail, judged, ok, unknown, warn
from locknut.core.values import Finding
from locknut.drivers.etcd import member_reports
from locknut.drivers.etcd.member_reports import ALARMS, MEMBERS, STATUS, Status
from locknut.drivers.etcd.members import Host, Members
from locknut.drivers.etcd.settings import Settings, shown
from locknut.drivers.etcd.sync import BlockingLink
from locknut.errors import LocknutError

_OLDEST: Final = (3, 4)
_INCONSISTENT: Final = ((3, 5, 0), (3, 5, 2))
"""Members of these versions can differ after a crash."""
Reports = dict[str, Status | str]
"""Of each host: what its member says, or why it says nothing."""


def checks(settings: Settings) -> list[Check]:
    """Each host of the URL is asked by itself."""

    async def members() -> list[Finding]:
        reports: Reports = {}
        for host in settings.hosts:
            try:
                reports[shown(host)] = member_reports.status(await _asked(settings, host, STATUS))
            except LocknutError as error:
                reports[shown(host)] = error.message
        told = {place: each for place, each in reports.items() if isinstance(each, Status)}
        if not told:
            why = f"No member could be asked: {next(iter(reports.values()))}."
            advice = "Start a majority of the members, and see to their network."
            return [unknown("etcd-version", why), fail("etcd-members", why, advice)]
        size = await _size(settings)
        return [
            judged("etcd-version", lambda: _version(told)),
            judged("etcd-members", lambda: _members(reports, told, size)),
        ]

    async def alarms() -> list[Finding]:
        return [_alarms(member_reports.alarms(await _asked(settings, None, ALARMS)))]

    return [Check(("etcd-version", "etcd-members"), members), Check(("etcd-alarms",), alarms)]


async def _asked(settings: Settings, host: Host | None, path: str) -> bytes:
    alone = settings if host is None else replace(settings, hosts=(host,))
    link = BlockingLink(alone, Members(alone))
    try:
        return await link.report(path)
    finally:
        await link.close()


async def _size(settings: Settings) -> int:
    """How many members the cluster has; 0 if it does not tell this user."""
    try:
        return member_reports.member_count(await _asked(settings, None, MEMBERS))
    except LocknutError:
        return 0


def _version(told: dict[str, Status]) -> Finding:
    code = "etcd-version"
    for place, each in told.items():
        number = tuple(int(part) for part in each.version.split("-")[0].split("."))
        if number < _OLDEST:
            return fail(code, f"{place} is etcd {each.version}.", "Use etcd 3.4 or newer.")
        if _INCONSISTENT[0] <= number <= _INCONSISTENT[1]:
            found = f"{place} is etcd {each.version}, whose members may differ after a crash."
            return fail(code, found, "Use 3.5.3 or newer: a lock may be granted twice otherwise.")
    versions = sorted({each.version for each in told.values()})
    return ok(code, f"The members are etcd {' and '.join(versions)}.")


def _members(reports: Reports, told: dict[str, Status], size: int) -> Finding:
    code = "etcd-members"
    if len({each.cluster for each in told.values()}) > 1:
        found = f"The hosts of the URL belong to different clusters: {', '.join(told)}."
        return fail(code, found, "Give the hosts of one cluster: locks of two do not meet.")
    lost = [place for place, each in told.items() if not each.leader]
    if lost:
        found = f"{', '.join(lost)} knows no leader: it is cut off from a majority of the members."
        return fail(code, found, "Start the members that are missing, and see to their network.")
    silent = [f"{place}: {why}" for place, why in reports.items() if isinstance(why, str)]
    if silent:
        found = f"{len(silent)} of {len(reports)} members cannot be asked: {'; '.join(silent)}."
        return warn(code, found, "Start them, or take them out of the URL.")
    learning = [place for place, each in told.items() if each.learner]
    if learning:
        found = f"{', '.join(learning)} is a learner, and answers nothing that a lock asks."
        return warn(code, found, "Take it out of the URL until it is promoted.")
    if size == 1:
        found = "The cluster has one member: while that is away, nothing is granted or renewed."
        return warn(code, found, "Run three members on three machines.")
    return ok(code, f"All {len(told)} members of the URL are there and know their leader.")


def _alarms(raised: set[str]) -> Finding:
    code = "etcd-alarms"
    if not raised:
        return ok(code, "No alarm is raised.")
    advice = {
        "NOSPACE": "Compact and defragment, or raise --quota-backend-bytes; then disarm the alarm.",
        "CORRUPT": "Take the corrupt member out of the cluster and restore it.",
    }
    found = f"An alarm is raised: {', '.join(sorted(raised))}; the cluster refuses to write."
    worst = "CORRUPT" if "CORRUPT" in raised else min(raised)
    return fail(code, found, advice.get(worst, "See the log of the members."))
