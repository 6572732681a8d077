"""Alias classes of a module: tells LLVM that a record's fields and array elements never overlap."""

__all__ = ["AliasClasses"]


class AliasClasses:
    """Numbers a tag per class of memory. Source: LLVM Language Reference, "tbaa Metadata"."""

    def __init__(self) -> None:
        self._tags: dict[str, int] = {}

    def tag(self, name: str) -> str:
        """The suffix of a load or store of class `name`."""
        number = self._tags.setdefault(name, len(self._tags))
        return f", !tbaa !{2 * number + 2}"

    def definitions(self) -> str:
        """The metadata at the end of the module."""
        lines = ['!0 = !{!"daedal"}']
        for name, number in self._tags.items():
            lines.append(f'!{2 * number + 1} = !{{!"{name}", !0, i64 0}}')
            lines.append(f"!{2 * number + 2} = !{{!{2 * number + 1}, !{2 * number + 1}, i64 0}}")
        return "\n".join(lines)
