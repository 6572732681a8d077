"""`page_template`: templates of self-contained pages in a common style.

Names come from models and variants and are untrusted: templates escape all of them.
"""

from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template

__all__ = ["page_template"]


def page_template(name: str, package: str = __package__) -> Template:
    """A template of `package`; it may include other templates of `package` and of this package."""
    folders = [resources.files(place) / "templates" for place in (package, __package__)]

    def load(wanted: str) -> str | None:
        found = next((folder / wanted for folder in folders if (folder / wanted).is_file()), None)
        return None if found is None else found.read_text("utf-8")

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=FunctionLoader(load),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
