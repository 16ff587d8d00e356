"""A tab of the browser that notes what goes wrong in it."""

from collections.abc import Sequence
from typing import Any


def watched_tab(
    browser: Any, address: str, ours: Sequence[str], *, width: int, scheme: str = "light"
) -> tuple[Any, list[str]]:
    """The page at an address, ready, and what it complained about or asked of others than `ours`."""
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True)
    tab.set_default_timeout(120_000)  # a busy machine is no fault of the page
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda request: None if request.url.startswith(tuple(ours)) else complaints.append(request.url))
    tab.goto(address)
    tab.wait_for_selector("html[data-ready]")
    return tab, complaints
