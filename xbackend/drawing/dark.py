"""Dark mode: the dark colour for each light one.

Outlines stand out from both pages and stay. A fill becomes dark with its outline's hue, and the text on it light.
"""

from __future__ import annotations

from xbackend.drawing.graph import INK, PALETTE, PAPER, SHADES

_PAGE, _TEXT, _SHARE = "#0d1117", "#e6edf3", 0.3


def _mixed(colour: str) -> str:
    """A colour on the dark page, as if it were nearly transparent."""
    parts = zip(bytes.fromhex(colour[1:]), bytes.fromhex(_PAGE[1:]), strict=True)
    return "#" + bytes(round(_SHARE * own + (1 - _SHARE) * page) for own, page in parts).hex()


DARK = (
    {INK: _TEXT, PAPER: _PAGE}
    | {fill: _mixed(outline) for outline, fill in PALETTE}
    | dict(zip(SHADES, ("#2a66b8", "#265591", "#20426c", "#1a2f4a", "#151f2e"), strict=True))
)


def style(svg: str) -> str:
    """A style sheet for a standalone picture with the colours that it uses; empty if it uses none."""
    used = {light: dark for light, dark in DARK.items() if light in svg}
    rules = "".join(
        f'[{name}="{light}"],[style*="{name}: {light}"]{{{name}:{dark}!important}}'
        for light, dark in used.items()
        for name in ("fill", "stroke")
    )
    return f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>" if rules else ""


def either(value: str) -> str:
    """An attribute's value with each light colour paired with its dark one, for pictures in a page of both schemes.

    https://developer.mozilla.org/en-US/docs/Web/CSS/color_value/light-dark
    """
    for light, dark in DARK.items():
        value = value.replace(light, f"light-dark({light}, {dark})")
    return value
