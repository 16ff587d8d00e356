"""`zoo serve FOLDER`: answers over HTTP, and a page to look at, until Ctrl-C."""

import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zoolearn.cli.flags import ZooPath, flag, parse
from zoolearn.errors import MissingData, SettingsError
from zoolearn.words import plural

IDEA = """Serve a zoo: predictions over HTTP, and a page that shows what it knows. New episodes are picked up as they come.

Without --host, only programs on this machine are answered. The guide docs/serving.md has the routes and examples."""


@dataclass
class ServeOptions:
    """Where, for whom, and whether it may learn."""

    folder: ZooPath
    host: str = flag("address to listen on; 0.0.0.0: all of this machine's", default="127.0.0.1")
    port: int = flag("0: any that is free", default=8000)
    token: str | None = flag("what clients must send; better set as the variable ZOO_TOKEN", "TOKEN", "none is needed")
    learn: bool = flag("also take archives of images and learn from them", default=False)
    access_log: Path | None = flag("add a JSON line to this file for every request", "FILE", "none is kept")
    threads: int | None = flag("threads that answer", "N", "OMP_NUM_THREADS, or 1")


def main(arguments: Sequence[str]) -> None:
    """Serves until it is stopped."""
    options = parse(ServeOptions, arguments, "zoo serve", IDEA)
    token = os.environ.get("ZOO_TOKEN") if options.token is None else options.token
    if token is not None and (len(token) < 8 or not token.isascii() or not token.isprintable() or " " in token):
        raise SettingsError(
            "the token must have at least 8 characters, all plain ones and no space; try `openssl rand -hex 16`"
        )
    try:
        import fastapi  # noqa: F401
        import httptools  # noqa: F401
        import prometheus_client  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingData(f"serving needs {error.name}; install it with: pip install 'zoolearn[serve]'") from error
    import torch

    from zoolearn.cores import check_threads, default_threads
    from zoolearn.zoo.serve.app import make_app
    from zoolearn.zoo.serve.guard import log_access
    from zoolearn.zoo.serve.limits import Limits
    from zoolearn.zoo.serve.server import make_server, open_socket, own_names
    from zoolearn.zoo.serve.service import Service

    threads = default_threads() if options.threads is None else options.threads
    check_threads(threads)
    if not 0 <= options.port <= 65535:
        raise SettingsError(f"port is {options.port}; give 1 to 65535, or 0 for any that is free")
    names = own_names(options.host)
    if options.learn and names is None and token is None:
        raise SettingsError(
            f"with --learn on {options.host}, anyone who reaches this machine could teach the zoo; give a --token"
        )
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    torch.set_num_threads(threads)
    if options.access_log is not None:
        log_access(options.access_log)
    service = Service(options.folder, Limits(), learns=options.learn)
    socket = open_socket(options.host, options.port)
    server = make_server(make_app(service, token=token, hosts=names), service)
    port = socket.getsockname()[1]
    shown = f"[{options.host}]" if ":" in options.host else options.host
    tasks = plural(len(service.index.tasks), "task")
    print(f"{options.folder}: {tasks} at http://{shown}:{port}/ (Ctrl-C stops it)", flush=True)
    if names is None and token is None:
        print("Anyone who reaches this machine can ask the zoo and see its page; --token makes it private", flush=True)
    try:
        server.run(sockets=[socket])
    except KeyboardInterrupt:
        if not service.live.aside.is_busy:
            raise
        print("zoo: stopped", file=sys.stderr, flush=True)
        os._exit(130)  # Python cannot end a thread that is amid a fit, and would abort
