"""What all live displays in a terminal have in common: a picture that is drawn again and again in the same place."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


class AbstractDisplay(ABC):
    """A context that begins the display and ends it.

    Args:
        console: the terminal, of rich; standard error by default, so that results can be piped on.
    """

    def __init__(self, console: "Console | None" = None) -> None:
        from rich.console import Console
        from rich.live import Live

        console = console or Console(stderr=True)
        # redrawn by a clock of its own, so that the time left runs down between two events
        self._live = Live(get_renderable=self.render, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._live.stop()

    @abstractmethod
    def render(self) -> "RenderableType":
        """The picture at this moment."""
