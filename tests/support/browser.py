"""Pages in a real browser: what is out of place, what the keyboard reaches, what scripts said.

Chromium without a window, driven by Playwright. It is a tool that may lack: `find_chromium` says.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Browser", "Look", "find_chromium", "opened_browser"]

WIDTH = 1280
_NAMES = ("chromium", "chromium-browser", "google-chrome")
# Nothing is asked of the network.
_FLAGS = ("--disable-quic", "--disable-background-networking", "--disable-component-update")
_STOPS = 40
"""Presses of the tabulator at most."""

_PLACES = """() => {
  const shown = (e) => e.checkVisibility({visibilityProperty: true});
  const [overlapping, outside] = [[], []];
  for (const drawing of document.querySelectorAll("svg")) {
    if (!shown(drawing)) continue;
    const frame = drawing.getBoundingClientRect();
    const labels = [...drawing.querySelectorAll("text")].filter(shown)
      .map((e) => [e.textContent, e.getBoundingClientRect()]);
    labels.forEach(([text, at], number) => {
      if (at.left < frame.left - 1 || at.right > frame.right + 1
          || at.top < frame.top - 1 || at.bottom > frame.bottom + 1) outside.push(text);
      for (const [other, its] of labels.slice(0, number)) {
        const width = Math.min(at.right, its.right) - Math.max(at.left, its.left);
        const height = Math.min(at.bottom, its.bottom) - Math.max(at.top, its.top);
        if (width > 1 && height > 2) overlapping.push([other, text]);
      }
    });
  }
  return {
    width: document.documentElement.scrollWidth, overlapping, outside,
    ground: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(document.body).color,
  };
}"""
_FOCUSED = """() => {
  const e = document.activeElement;
  return e === document.body ? null : [e.tagName.toLowerCase(), e.textContent.trim()];
}"""


@dataclass(frozen=True)
class Look:
    """What a page is, shown 1,280 pixels wide.

    Attributes
    ----------
    width : of its contents, in pixels: more than `WIDTH` where they must be scrolled to the side.
    overlapping : pairs of labels in a drawing of which one hides a part of the other.
    outside : labels that leave their drawing.
    messages : what scripts printed, and their errors.
    focused : what the tabulator reaches, in order: tag and text.
    brightness : of the ground and of the text, 0 to 255.
    """

    width: int
    overlapping: list[tuple[str, str]]
    outside: list[str]
    messages: list[str]
    focused: list[tuple[str, str]]
    brightness: tuple[float, float]


class Browser:
    """Opens pages; `page` is Playwright's."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self._browser = browser
        self._path = folder / "page.html"

    def look(self, text: str, *, dark: bool = False) -> Look:
        """Open a page that is given as text."""
        with self.opened(text, dark=dark) as (page, messages):
            places = page.evaluate(_PLACES)
            focused: list[tuple[str, str]] = []
            for _ in range(_STOPS):
                page.keyboard.press("Tab")
                found = page.evaluate(_FOCUSED)
                if found is None:
                    break
                focused.append((found[0], found[1]))
            return Look(
                places["width"],
                [(first, second) for first, second in places["overlapping"]],
                places["outside"],
                messages,
                focused,
                (_brightness(places["ground"]), _brightness(places["ink"])),
            )

    @contextmanager
    def opened(self, text: str, *, dark: bool = False) -> Iterator[tuple[Any, list[str]]]:
        """A page that is given as text, to press and to choose, and the messages of its scripts."""
        self._path.write_text(text, encoding="utf-8")
        with self.visited(self._path.as_uri(), dark=dark) as found:
            yield found

    @contextmanager
    def visited(self, address: str, *, dark: bool = False) -> Iterator[tuple[Any, list[str]]]:
        """As `opened`, of the page at `address`."""
        page = self._browser.new_page(
            viewport={"width": WIDTH, "height": 900}, color_scheme="dark" if dark else "light"
        )
        messages: list[str] = []
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        try:
            page.goto(address)
            yield page, messages
        finally:
            page.close()

    def check(self, text: str) -> Look:
        """Assert what holds of every page, in light and in dark; how it looks in light."""
        light, dark = self.look(text), self.look(text, dark=True)
        for look in (light, dark):
            assert look.width <= WIDTH
            assert not look.overlapping and not look.outside
            assert not look.messages
        (ground, ink), (dark_ground, dark_ink) = light.brightness, dark.brightness
        assert ground - ink > 128 and dark_ink - dark_ground > 128
        return light


def find_chromium() -> str | None:
    """The path of a Chromium; None where there is none."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


@contextmanager
def opened_browser(folder: Path) -> Iterator[Browser]:
    """A browser, which keeps what it opens in `folder`.

    It has an event loop of its own, which must have ended before another one runs.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(_FLAGS))
        try:
            yield Browser(browser, folder)
        finally:
            browser.close()


def _brightness(colour: str) -> float:
    """Of ``rgb(red, green, blue)``."""
    values = [int(value) for value in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    return sum(values) / len(values)
