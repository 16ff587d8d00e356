"""The routes of the HTTP server."""

import json
import logging
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from zoolearn.errors import DataError, UnknownTask
from zoolearn.files import Json
from zoolearn.zoo.answers.recognition import check_recognisable
from zoolearn.zoo.intake.intake import check_growable
from zoolearn.zoo.intake.naming import check_name
from zoolearn.zoo.serve.guard import HEALTH, READY, SLASH, Guard
from zoolearn.zoo.serve.limits import limit_body
from zoolearn.zoo.serve.messages import (
    ARCHIVE,
    FLAG,
    NAME,
    NAMES,
    QUESTION,
    SHARE,
    Accepted,
    Health,
    Members,
    Option,
    Page,
    Predictions,
    Ready,
    Recognitions,
    Scores,
    Task,
    TaskPage,
    Tasks,
    parameters,
    refusals,
    share,
)
from zoolearn.zoo.serve.page import shell
from zoolearn.zoo.serve.problems import Problem, service_unavailable
from zoolearn.zoo.serve.rows import describe_rows
from zoolearn.zoo.serve.service import Service
from zoolearn.zoo.serve.training import Training
from zoolearn.zoo.summary import describe_task

log = logging.getLogger("zoolearn.zoo.serve")
SURE = 0.5  # probability from which a task is named
PREDICT = {"votes": FLAG, "sure": share(0.0)}
RECOGNISE = {"sure": share(SURE)}
LEARN = {"new_class": NAMES, "skip_known": FLAG, "skip_broken": FLAG, "heads_only": FLAG, "unless_worse": SHARE}


def make_app(service: Service, *, token: str | None = None, hosts: Collection[str] | None = None) -> FastAPI:
    """The application: answers to these host names only (None: any), and requires the token if there is one."""
    app = FastAPI(
        title="A zoo",
        summary="Predictions of a growing zoo of small networks.",
        version=str(1),
        docs_url=None,
        redoc_url=None,
        lifespan=service.running,
    )
    app.add_middleware(Guard, token=token, hosts=hosts, counters=service.counters, limits=service.limits)
    _handle_errors(app)
    _add_routes(app, service)
    if service.training is not None:
        _add_learning(app, service, service.training)
    else:
        _check_learning(app)
    _add_pages(app)
    _declare(app, needs_token=token is not None)
    return app


def _add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def page(request: Request) -> Response:
        found = shell(request.url.path)
        assert found is not None
        return Response(found.body, headers={name.decode(): value.decode() for name, value in found.headers})


def _add_routes(app: FastAPI, service: Service) -> None:
    @app.post(
        "/tasks/{name}/predict",
        response_model=Predictions,
        responses=refusals(400, 403, 404, 408, 413, 415, 503),
        openapi_extra={"requestBody": QUESTION, "parameters": [NAME, *parameters(PREDICT)]},
    )
    async def predict(request: Request) -> Response:
        """The most probable class of each row; with `votes`, what each member says too.

        With `sure`, it is null where its chance is lower or the row is like nothing stored: none of these.
        """
        name = _task_name(request.path_params["name"])
        options = _options(request, PREDICT)
        votes, sure = options.get("votes", False), options.get("sure", 0.0)
        index = service.index
        index.task(name)
        shape = index.settings.shape
        assert shape is not None
        answers_a_row = 1 + len(index.voters(name)) if votes else 1
        async with service.read_rows(request, shape, answers_a_row * len(index.tasks[name].classes)) as rows:
            answers = await service.ask(name, rows, sure)
        content = {"task": name, "generation": answers.generation, "predictions": answers.to_json(votes=votes)}
        return _json(content)

    @app.post(
        "/recognise",
        response_model=Recognitions,
        responses=refusals(400, 403, 408, 413, 415, 503),
        openapi_extra={"requestBody": QUESTION, "parameters": parameters(RECOGNISE)},
    )
    async def recognise(request: Request) -> Response:
        """The task and the class of each row, null where the chance of the task is below `sure` or the row is strange."""
        sure = _options(request, RECOGNISE).get("sure", SURE)
        index = service.index
        try:
            check_recognisable(index)
        except DataError as error:
            raise Problem(422, str(error)) from error
        shape = index.settings.shape
        assert shape is not None
        async with service.read_rows(request, shape, len(index.tasks)) as rows:
            generation, found = await service.recognise(sure, rows)
        return _json({"generation": generation, "recognitions": [row.to_json() for row in found]})

    @app.get("/healthz", responses={421: refusals()[421]})
    async def health() -> Health:
        """Whether the server is well."""
        training = service.training is not None and service.training.taken
        stale = service.live.problem is not None
        return Health(status="stale" if stale else "ok", generation=service.index.generation, training=training)

    @app.get("/readyz", responses={421: refusals()[421], 503: {"model": Ready}})
    async def ready(response: Response) -> Ready:
        """Whether the nets are loaded: until then the first questions about a task wait for its members' files."""
        live = service.live
        response.status_code = 200 if live.ready else 503
        return Ready(ready=live.ready, nets=live.prepared, members=len(service.index.members))

    @app.get("/metrics", response_class=PlainTextResponse, responses=refusals())
    async def metrics() -> PlainTextResponse:
        """Counters, as Prometheus reads them."""
        return PlainTextResponse(service.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/tasks", response_model=Tasks, responses=refusals())
    async def tasks(asked: Annotated[TaskPage, Query()]) -> Response:
        """The tasks whose names contain a text, by default the newest, and what a row is."""
        return Response(service.listing.tasks(asked.search, asked.first, asked.count), media_type="application/json")

    @app.get("/tasks/{name}", responses=refusals(404))
    async def task(name: str) -> Task:
        """One task."""
        index = service.index
        entry = index.task(_task_name(name))
        return Task(**describe_task(index, entry, service.live.majority(entry)))

    @app.get("/tasks/{name}/scores", responses=refusals(404, 503))
    async def scores(name: str) -> Scores:
        """How good the answers for a task are on its held-out rows: class by class, and what is mistaken for what."""
        name = _task_name(name)
        found = await service.scores(name)
        return Scores(task=name, **found.to_json())

    @app.get("/members", response_model=Members, responses=refusals())
    async def members(asked: Annotated[Page, Query()]) -> Response:
        """The nets and the tasks that they know; by default the newest."""
        return Response(service.listing.members(asked.first, asked.count), media_type="application/json")


def _add_learning(app: FastAPI, service: Service, training: Training) -> None:
    @app.post(
        "/tasks/{name}",
        status_code=202,
        responses=refusals(400, 403, 408, 409, 413, 415, 503),
        openapi_extra={
            "requestBody": ARCHIVE,
            "parameters": [NAME, *parameters(LEARN)],
        },
    )
    async def learn(request: Request) -> Accepted:
        """Learns a new task from an archive of images, while predictions go on; `GET /training` tells how it comes on.

        Under the name of a known task, it grows by what the archive holds: more images of its classes, and classes that are
        new, if each is announced by `new_class`. `skip_known` leaves out images that the task has already, and with `heads_only`
        nothing is trained: a head is fitted to all images, in seconds.
        With `unless_worse`, the episode is taken back if an earlier task lost more accuracy than that, beyond chance.
        """
        name = _task_name(request.path_params["name"])
        options = _options(request, LEARN)
        limits, entry = service.limits, service.index.tasks.get(name)
        try:
            if entry is None:
                check_name(name, service.index)
            else:
                check_growable(entry)
        except DataError as error:
            raise Problem(422, str(error)) from error
        settings = service.index.settings
        if settings.kind == "features":
            takes = "texts" if settings.takes_texts else describe_rows(settings.shape or ())
            raise Problem(422, f"this zoo takes {takes}, no images; teach it with `zoo learn`")
        try:
            with training.reserve(name) as order:
                async with limit_body(request, limits.archive_bytes, limits.archive_seconds) as bounded:
                    with order.archive.open("wb") as file:
                        async for block in bounded.stream():
                            file.write(block)
                    counts, others = await order.begin(service.index, **options)
        except OSError as error:
            log.error("%s", error)
            raise service_unavailable("the server has no room for the archive now", 60) from error
        return Accepted(task=name, images=counts, not_used=len(others), not_used_first=others[:10])

    @app.get(
        "/training",
        response_class=StreamingResponse,
        responses={
            200: {"content": {"text/event-stream": {}}},
            **refusals(503),
        },
    )
    async def training_events() -> StreamingResponse:
        """The state of the training, now and at every change until it is done, as server-sent events."""
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(training.follow(), media_type="text/event-stream", headers=headers)


def _check_learning(app: FastAPI) -> None:
    """Tells clients of a server that does not learn what is missing."""
    why = "this server does not learn; its operator can allow it (`zoo serve --learn`)"

    @app.post("/tasks/{name}", include_in_schema=False)
    async def learn() -> None:
        raise Problem(405, why, {"Allow": "GET"})

    @app.get("/training", include_in_schema=False)
    async def training() -> None:
        raise Problem(404, why)


def _json(content: dict[str, Json]) -> Response:
    """An answer of a hot route, without validation by a model."""
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")


def _options(request: Request, known: Mapping[str, Option]) -> dict[str, Any]:
    """The options of a route that are given; FastAPI's own parsing would take half the time of a request."""
    options = request.query_params
    found: dict[str, Any] = {}
    for name, value in options.multi_items():
        try:
            given = known[name].read(value)
        except (KeyError, ValueError) as error:
            listed = ", ".join(f"{name} ({option.meaning})" for name, option in known.items())
            raise Problem(422, f"{f'{name}={value}'[:80]!r} is no option here; there are: {listed}") from error
        found[name] = [*found.get(name, ()), *given] if isinstance(given, list) else given
    return found


def _task_name(name: str) -> str:
    return name.replace(SLASH, "/")


def _handle_errors(app: FastAPI) -> None:
    """Gives every refusal one form."""

    def answer(status: int, detail: str, headers: Any = None, **more: Any) -> JSONResponse:
        return JSONResponse({"detail": detail, **more}, status, headers)

    @app.exception_handler(Problem)
    async def problem(_: Request, error: Problem) -> Response:
        more = {"new_classes": error.new_classes} if error.new_classes else {}
        return answer(error.status, error.detail, error.headers, **more)

    @app.exception_handler(UnknownTask)
    async def unknown(_: Request, error: UnknownTask) -> Response:
        return answer(404, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        problems = (f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}" for entry in error.errors())
        return answer(422, "; ".join(problems))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        if error.status_code != 405:
            return answer(error.status_code, str(error.detail), error.headers)
        matching = [route for route in app.routes if route.matches(request.scope)[0] is not Match.NONE]
        methods = sorted({method for route in matching for method in getattr(route, "methods", None) or ()})
        return answer(
            405, f"{request.method} is not for this address; use {' or '.join(methods)}", {"Allow": ", ".join(methods)}
        )

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, error: ClientDisconnect) -> Response:
        return answer(400, "the request broke off")  # the client is gone

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        return answer(500, "the server has failed; its log says why")


def _declare(app: FastAPI, *, needs_token: bool) -> None:
    """Adds to the schema what FastAPI leaves out: refusals are JSON on every route, and the token."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        schema = plain()
        for operation in (operation for path in schema["paths"].values() for operation in path.values()):
            for status, response in operation["responses"].items():
                if status >= "400" and not (status == "503" and "content" in response):
                    response["content"] = {"application/json": {"schema": {"$ref": "#/components/schemas/Detail"}}}
        if needs_token:
            schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{"token": []}]
            for path in (HEALTH, READY):
                schema["paths"][path]["get"]["security"] = []
        return schema

    app.openapi = openapi  # type: ignore[method-assign]
