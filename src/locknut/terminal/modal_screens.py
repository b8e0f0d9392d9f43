"""What `locknut top` shows above its table: one lock in detail, and whether to break it."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from locknut import LockInfo
from locknut.cli.ls import card
from locknut.cli.messages import quoted


class LockScreen(ModalScreen[None]):
    """Everything that is known of one lock, as `locknut show` prints it."""

    BINDINGS = [Binding("escape,enter,q", "dismiss", "Back")]  # noqa: RUF012  # textual's own form

    def __init__(self, info: LockInfo, place: str, events: str) -> None:
        super().__init__()
        self._text = f"{card(info, place)}\n\n{events}".rstrip()

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            with VerticalScroll(classes="card"):
                yield Static(Text(self._text), id="detail")
            yield Static("esc  back", classes="hint")


class AskBreak(ModalScreen[str | None]):
    """Gives back the reason, or None: an empty reason breaks nothing."""

    BINDINGS = [Binding("escape", "dismiss", "Leave it alone")]  # noqa: RUF012  # as above

    AUTO_FOCUS = "Input"  # the line above it can be scrolled, and so could be chosen

    def __init__(self, info: LockInfo, fence: int, place: str) -> None:
        super().__init__()
        self._card = card(info, place)
        self._question = (
            f"Break {quoted(info.name)}, the hold with fence {fence}? The holder may still be "
            "running. If the lock has changed hands by then, nothing is broken."
        )

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            with VerticalScroll(classes="card"):
                yield Static(Text(self._card))
            yield Static(Text(self._question), id="question")
            yield Input(placeholder="why? the holder and the log will see it", id="reason")
            yield Static("enter  break it     esc  leave it alone", classes="hint")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()  # it is no filter
        reason = " ".join(event.value.split())
        _ = self.dismiss(reason or None)  # textual awaits it
