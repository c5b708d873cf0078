"""What every page of ours shares: templates, styles, highlighted code.

In: a template's name and its values. Out: one self-contained HTML text: styles and scripts stand inside it, nothing is
fetched. jinja2 and Pygments are imported when a page is made, not before.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).parent / "assets"


def render_page(template: str, **values: Any) -> str:
    """Fill a template of `assets/`; texts are escaped, unless they are `Markup`."""
    return _environment().get_template(template).render(asset=asset, code=code, code_css=code_css(), **values)


@cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from .timing import format_bytes, format_seconds

    options: dict[str, Any] = {"autoescape": True, "undefined": StrictUndefined, "trim_blocks": True}
    environment = Environment(loader=FileSystemLoader(ASSETS), lstrip_blocks=True, **options)
    environment.filters.update(seconds=format_seconds, bytes=format_bytes)
    return environment


def asset(name: str) -> Any:
    """A file of `assets/`, as it is."""
    from markupsafe import Markup

    return Markup((ASSETS / name).read_text())


def code(text: str, language: str) -> Any:
    """Highlighted source, as inline elements, one line a line: the caller puts it into a `<pre>`."""
    from markupsafe import Markup
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    return Markup(highlight(text, get_lexer_by_name(language, stripnl=False), HtmlFormatter(nowrap=True)))


@cache
def code_css() -> Any:
    """Pygments' colours, for light pages and for dark ones."""
    from markupsafe import Markup
    from pygments.formatters import HtmlFormatter

    light = HtmlFormatter(style="xcode").get_style_defs("[data-theme=light] .code")
    dark = HtmlFormatter(style="github-dark").get_style_defs("[data-theme=dark] .code")
    return Markup(_only_tokens(light) + _only_tokens(dark))


def _only_tokens(css: str) -> str:
    """The rules for tokens; the page has its own for backgrounds and line numbers."""
    return "\n".join(line for line in css.splitlines() if " .code ." in line and "linenos" not in line) + "\n"
