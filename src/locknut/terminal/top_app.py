"""`locknut top` itself: its keys, and how a listing becomes what is on the screen."""

from __future__ import annotations

from itertools import islice
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import DataTable, Footer, Input, Static

from locknut import LockInfo, Locks
from locknut.cli.messages import plain, span
from locknut.errors import LocknutError
from locknut.observer import summaries
from locknut.observer.place_observer import PlaceObserver
from locknut.observer.sightings import Weight
from locknut.terminal.modal_screens import AskBreak, LockScreen
from locknut.terminal.rows_table import RowsTable
from locknut.terminal.table_rows import MOST, ORDERS, VIEWS, Row


class Tick(Message):
    """There was a listing."""


class TopApp(App[None]):
    """A live view of one place."""

    CSS_PATH = "top.tcss"
    TITLE = "locknut top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"view('{name}')", view.title)
            for number, (name, view) in enumerate(VIEWS.items(), start=1)
        ),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort", "Sort"),
        Binding("space", "pause", "Pause"),
        Binding("enter", "detail", "Detail"),
        Binding("b", "break", "Break"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, locks: Locks, *, refresh: float = 1.0, pattern: str = "") -> None:
        super().__init__()
        self.observer = PlaceObserver(locks, refresh=refresh)
        self.view = "locks"
        self.order = ORDERS[0]
        self.pattern = pattern
        self.paused = False
        self._rows: list[Row] = []
        self._more = False
        # Kept here: a question that is open is the screen in which others would be looked for.
        self._summary = Static(id="summary")
        self._attention = Static(id="attention")
        self._filter = Input(pattern, placeholder="order:* or a part of a name", id="filter")
        self._table = RowsTable()

    def compose(self) -> ComposeResult:
        yield self._summary
        yield self._attention
        yield self._filter
        yield self._table
        yield Footer()

    def on_mount(self) -> None:
        self._filter.display = bool(self.pattern)
        self._table.focus()
        self.observer.view(lambda: self.post_message(Tick()))
        self.observer.start()
        self._draw()

    def on_unmount(self) -> None:
        self.observer.close()

    def on_tick(self, _message: Tick) -> None:
        self.observer.doctor.wanted = True
        if not self.paused:
            self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "filter":
            self.pattern = event.value.strip()
            self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.input.display = bool(self.pattern)
        self._table.focus()

    def on_data_table_row_selected(self, _event: DataTable.RowSelected) -> None:
        self.action_detail()

    def action_view(self, name: str) -> None:
        self.view = name
        self._draw()

    def action_filter(self) -> None:
        self._filter.display = True
        self._filter.focus()

    def action_sort(self) -> None:
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        self._draw()

    def action_pause(self) -> None:
        self.paused = not self.paused
        self._draw()

    def action_detail(self) -> None:
        row = self._chosen()
        info = self._info(row.name) if row is not None else None
        if row is None or info is None:
            return
        events = self.observer.events(row.name)[-8:]
        told = "\n".join(plain(f"  {each.kind} {each.who} {each.detail}") for each in events)
        self.call_later(self.push_screen, LockScreen(info, self.observer.place, told))

    def action_break(self) -> None:
        """Ask first; what is broken is the hold that was on the screen, and no later one."""
        row = self._chosen()
        info = self._info(row.name) if row is not None else None
        if row is None or row.fence is None or info is None:
            self.notify("choose a line with a holder and a fence", severity="warning")
            return
        name, fence = row.name, row.fence

        def answered(reason: str | None) -> None:
            if reason:
                self._break(name, fence, reason)

        self.call_later(self.push_screen, AskBreak(info, fence, self.observer.place), answered)

    @work(thread=True)
    def _break(self, name: str, fence: int, reason: str) -> None:
        try:
            broken = self.observer.break_hold(name, fence, f"{reason} (in locknut top)")
        except LocknutError as error:
            self.notify(plain(str(error)), title="Not broken", severity="error", markup=False)
            return
        word = "broke" if broken else "nobody holds any more:"
        self.notify(f"{word} {plain(name)}, fence {fence}", markup=False)

    def _chosen(self) -> Row | None:
        at = self._table.cursor_row
        return self._rows[at] if 0 <= at < len(self._rows) else None

    def _info(self, name: str) -> LockInfo | None:
        return next((each for each in self.observer.picture.locks if each.name == name), None)

    def _draw(self) -> None:
        view, chosen, table = VIEWS[self.view], self._chosen(), self._table
        if not table.is_attached:  # it is over
            return
        found = list(islice(view.rows(self.observer, self.pattern, self.order), MOST + 1))
        self._rows, self._more = found[:MOST], len(found) > MOST
        found = self._rows
        table.tell(view.columns, found)
        if chosen is not None:
            same = next((at for at, row in enumerate(found) if _same(row, chosen)), None)
            table.move_cursor(row=min(table.cursor_row, len(found)) if same is None else same)
        self._summary.update(self._told(), layout=False)
        self._attention.update(self._worst(), layout=False)

    def _told(self) -> Text:
        picture = self.observer.picture
        longest = summaries.longest_wait(self.observer)
        words = [
            f"{picture.held} held",
            f"{picture.waiting} waiting",
            *([] if longest is None else [f"longest wait {span(longest)}"]),
            f"refresh {span(picture.pause)}",
            f"sorted by {self.order}" if self.view == "locks" else VIEWS[self.view].title,
            *([f"only the first {MOST} lines: filter with /"] if self._more else []),
        ]
        text = Text.assemble((f" {plain(self.observer.place)} ", "reverse"), "  ", "  ".join(words))
        if self.paused:
            text.append("  PAUSED", "bold yellow")
        if picture.problem:
            text.append(f"  {plain(picture.problem)}", "bold red")
        return text

    def _worst(self) -> Text:
        found = self.observer.concerns()
        if not found:
            return Text(" nothing needs attention", "green")
        first = found[0]
        name = f"{first.name} " if first.name else ""
        more = f"  and {len(found) - 1} more (5)" if len(found) > 1 else ""
        style = "bold red" if first.weight is Weight.TROUBLE else "yellow"
        return Text(plain(f" {first.kind}: {name}{first.title}{more}"), style)


def _same(one: Row, other: Row) -> bool:
    """The line that the cursor stays on when others come and go."""
    return (one.name, one.fence, one.cells[:3]) == (other.name, other.fence, other.cells[:3])
