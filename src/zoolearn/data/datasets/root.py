"""Where data sets are kept: the folder that was named, else `ZOOLEARN_DATA`, else the platform's cache folder."""

import os
import sys
from pathlib import Path


def data_root(data: Path | str | None = None) -> Path:
    """The folder that holds one folder per data set; it need not exist yet.

    >>> data_root("data").name
    'data'
    """
    chosen = data or os.environ.get("ZOOLEARN_DATA")
    return Path(chosen).expanduser() if chosen else _platform_cache() / "zoolearn"


def _platform_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
