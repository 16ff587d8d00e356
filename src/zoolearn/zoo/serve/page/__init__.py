"""The page at `/` and the one at `/docs`: one HTML file each, whose content is fetched by its own script."""

import base64
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files


@dataclass(frozen=True)
class Shell:
    """A page without content, and the headers that let it do nothing but talk to its own server."""

    body: bytes
    headers: tuple[tuple[bytes, bytes], ...]


@cache
def shell(path: str) -> Shell | None:
    """The page at a path, if there is one."""
    name = {"/": "zoo", "/docs": "docs"}.get(path)
    if name is None:
        return None
    style, script = _own("page.css"), _own("common.js") + _own(f"{name}.js")
    html = _own(f"{name}.html").replace("/* style */", style).replace("/* script */", script)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src blob: data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = ((b"content-type", b"text/html; charset=utf-8"), (b"content-security-policy", policy.encode()))
    return Shell(html.encode(), headers)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def _own(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
