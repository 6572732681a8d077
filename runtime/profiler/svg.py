"""SVG drawings as element trees: text from models is escaped by construction.

Colours come from the classes in ``templates/chart.css``, so that a drawing follows the light or
dark theme of its page; `standalone` embeds that style, for separate files.
"""

from importlib import resources
from xml.etree import ElementTree

__all__ = ["CHART_STYLE", "Drawing", "clip_text", "standalone"]

CHART_STYLE = (resources.files(__package__) / "templates" / "chart.css").read_text("utf-8")
"""Style of all drawings: colours of cycle classes and text, for light and dark."""

_MARGIN = 12.0
_NAMESPACE = "http://www.w3.org/2000/svg"


class Drawing:
    """An SVG of `width` x `height` user units; elements are drawn in the order they are added."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.root = ElementTree.Element(
            "svg",
            {
                "viewBox": f"0 0 {_number(width)} {_number(height)}",
                "class": "chart",
                "role": "img",
                "aria-label": title,
            },
        )

    def add(
        self,
        tag: str,
        *,
        hint: str = "",
        text: str = "",
        kind: str = "",
        link: str = "",
        **attributes: float | str,
    ) -> None:
        """Add an element. `hint` is its tooltip, `kind` its CSS classes, `link` the id of the
        page's element that it leads to.

        Attribute names have ``_`` for ``-``; numbers are written with at most two decimals.
        """
        found = {
            name.replace("_", "-"): value if isinstance(value, str) else _number(value)
            for name, value in attributes.items()
        }
        if kind:
            found["class"] = kind
        parent = self.root
        if link:
            parent = ElementTree.SubElement(self.root, "a", {"href": f"#{link}"})
        element = ElementTree.SubElement(parent, tag, found)
        if hint:
            ElementTree.SubElement(element, "title").text = hint
        elif text:
            element.text = text

    def text(self) -> str:
        """The drawing for inclusion in a page."""
        return ElementTree.tostring(self.root, encoding="unicode")


def standalone(drawing: Drawing) -> str:
    """The drawing as a standalone file, with its style and a background."""
    root = ElementTree.fromstring(drawing.text())
    root.set("xmlns", _NAMESPACE)
    width, height = (float(size) + 2 * _MARGIN for size in root.attrib["viewBox"].split()[2:])
    frame = {
        **{name: _number(-_MARGIN) for name in ("x", "y")},
        "width": _number(width),
        "height": _number(height),
    }
    root.set("viewBox", " ".join(frame.values()))
    root.set("width", frame["width"])
    root.set("height", frame["height"])
    root.insert(0, ElementTree.Element("rect", {"class": "ground", **frame}))
    style = ElementTree.Element("style")
    style.text = CHART_STYLE
    root.insert(0, style)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def clip_text(text: str, length: int) -> str:
    """At most `length` characters, with an ellipsis in the middle: names differ at their ends."""
    if len(text) <= length:
        return text
    tail = (length - 1) // 2
    return f"{text[: length - 1 - tail]}…{text[len(text) - tail :]}"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
