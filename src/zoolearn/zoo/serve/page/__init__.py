"""The page at `/` and the one at `/docs`: one HTML file each, whose content is fetched by its own script.

`report` is the first of them as a file that needs no server: what it would fetch is in it.
"""

import base64
import json
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from zoolearn.files import Json

SCRIPTS = {"zoo": ("common.js", "charts.js", "zoo.js"), "docs": ("common.js", "docs.js")}


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
    html, policy = _fill(name, "")
    policy += "; connect-src 'self'; frame-ancestors 'none'"
    headers = ((b"content-type", b"text/html; charset=utf-8"), (b"content-security-policy", policy.encode()))
    return Shell(html.encode(), headers)


def report(snapshot: dict[str, Json]) -> str:
    """A page of a zoo as it is now, in one file that may load nothing from anywhere."""
    data = json.dumps(snapshot).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    html, policy = _fill("zoo", f"const SNAPSHOT = {data};\n")
    return html.replace(
        '<meta charset="utf-8">',
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
    )


def _fill(name: str, before: str) -> tuple[str, str]:
    """A page with its style and script, and the policy that allows these two and no others."""
    style, script = _own("page.css"), before + "".join(map(_own, SCRIPTS[name]))
    html = _own(f"{name}.html").replace("/* style */", style).replace("/* script */", script)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src blob: data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return html, policy


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def _own(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
