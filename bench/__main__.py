"""Prints the benches by question: ``python -m bench``."""

from bench.questions import QUESTIONS

__all__ = ["lines"]


def lines() -> list[str]:
    """Question, command, time and page in columns, under a heading for each subject."""
    rows = [item for items in QUESTIONS.values() for item in items]
    widths = [
        max(len(text) for text in column)
        for column in zip(*((row.question, row.command, row.takes) for row in rows), strict=True)
    ]
    found = []
    for subject, items in QUESTIONS.items():
        found += ["", subject]
        for item in items:
            cells = zip((item.question, item.command, item.takes), widths, strict=True)
            text = "  ".join(f"{cell:{width}}" for cell, width in cells)
            found.append(f"  {text}  {item.page}".rstrip())
    return found[1:]


if __name__ == "__main__":
    print("\n".join(lines()))
    print("\n--help of a command tells its options; times are those of a first run on two cores.")
