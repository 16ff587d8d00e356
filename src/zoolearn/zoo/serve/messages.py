"""The server's messages, as its OpenAPI schema declares them."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from zoolearn.zoo.settings import LONGEST_NAME


class Message(BaseModel):
    """A message of the server, without undeclared fields."""

    model_config = ConfigDict(extra="forbid")


class Detail(Message):
    """Why a request was refused, and what to send instead: with `new_class` for each of `new_classes`, where they are named."""

    detail: str
    new_classes: list[str] | None = None


class Health(Message):
    """Whether the server is well; `stale` if the folder cannot be read any more and the last state is served."""

    status: Literal["ok", "stale"]
    generation: int
    training: bool


class Page(Message):
    """Which part of a list is wanted: `count` items from `first` on, or the newest."""

    first: int | None = Field(None, ge=0, le=1 << 53)
    count: int = Field(100, ge=1, le=1000)


class TaskPage(Page):
    """A page of the tasks whose names contain a text, ignoring case."""

    search: str = Field("", max_length=LONGEST_NAME)


class Ready(Message):
    """Whether every answer comes at once; else how many of the nets are at hand."""

    ready: bool
    nets: int
    members: int


class Measured(Message):
    """How well a task was answered on its held-out rows after an episode."""

    episode: int
    accuracy: float
    balanced_accuracy: float
    confidence: float


class Task(Message):
    """A task that the zoo knows.

    `accuracy` is that on its held-out rows, from `low` to `high` with 95 % certainty; `balanced_accuracy` the mean of that of its classes; `majority` what always naming
    `most_frequent` would get (null if the rows cannot be read); `confidence` the mean probability of the class that is named; `notes` say what is wrong.
    Answers are the average of votes at the `temperature`, which is fitted to the held-out rows.
    """

    name: str
    episode: int
    classes: list[str]
    rows_kept: int
    rows_held_out: int
    members: list[int]
    accuracy: float
    low: float
    high: float
    balanced_accuracy: float
    majority: float | None
    most_frequent: str | None
    confidence: float
    temperature: float
    notes: list[str]
    history: list[Measured]


class Right(Message):
    """How many of some rows were answered rightly, and the 95 % interval of that accuracy."""

    accuracy: float
    low: float
    high: float
    right: int
    rows: int


class OfClass(Right):
    """Rows of one class: `accuracy` is its recall, `precision` the share of rows called by it that are of it."""

    precision: float | None
    confused_with: str | None


class Calibration(Right):
    """Answers of about one confidence."""

    confidence: float


class Scores(Right):
    """How a task is answered on its held-out rows, class by class; `confusion` has a row for each class as it is."""

    task: str
    majority: float
    most_frequent: str
    balanced_accuracy: float
    confidence: float
    log_loss: float
    chance_log_loss: float
    calibration_error: float
    classes: dict[str, OfClass]
    confusion: list[list[int]]
    calibration: list[Calibration]
    notes: list[str]


class Tasks(Message):
    """Tasks, in the order they were learned, and what a row is; `shape` is null until the first task is learned.

    `features` is the name of the pre-trained extractor, where there is one. Of texts, `dtype` is "text" and `shape` is empty.
    `columns` are the names of its features, in their order, where it was taught with a table; rows may be objects by them.
    `total` is the number of tasks that were searched for, `first` the place among them of the first that is here.
    """

    zoo: str
    generation: int
    episodes: int
    shape: list[int] | None
    dtype: Literal["uint8", "float32", "text"] | None
    features: str | None
    columns: list[str]
    learns: bool
    total: int
    first: int
    tasks: list[Task]


class Member(Message):
    """A net of the zoo: the tasks it was trained on, those it has a fitted head for, and those it votes on with what weight."""

    number: int
    episode: int
    trained_on: list[str]
    fitted: list[str]
    votes_on: dict[str, float]
    bytes: int
    loss: float
    seconds: float


class Members(Message):
    """All members, oldest first."""

    generation: int
    total: int
    first: int
    members: list[Member]


class Vote(Message):
    """The answer of one member for one row."""

    member: int
    weight: float
    class_: str = Field(alias="class")
    probability: float
    probabilities: dict[str, float]


class Prediction(Message):
    """The answer of the zoo for one row; votes only if asked for."""

    class_: str | None = Field(alias="class")
    none_of_these: Literal["not sure", "strange"] | None
    probability: float
    probabilities: dict[str, float]
    votes: list[Vote] = []


class Predictions(Message):
    """An answer for each row, in their order."""

    task: str
    generation: int
    predictions: list[Prediction]


class Recognition(Message):
    """What the zoo makes of a row whose task is not given: null where it is not sure; and the chance of every task.

    `strange`: it is like nothing that is stored of any task.
    """

    task: str | None
    class_: str | None = Field(alias="class")
    probability: float | None
    strange: bool
    chances: dict[str, float]


class Recognitions(Message):
    """A recognition of each row, in their order."""

    generation: int
    recognitions: list[Recognition]


class Accepted(Message):
    """A task that is being learned from now on: its images, counted by class, and files of the archive that are none."""

    task: str
    images: dict[str, int]
    not_used: int
    not_used_first: list[str]
    follow: Literal["/training"] = "/training"


DETAILS = {
    400: "The request is damaged.",
    401: "The token is missing or wrong.",
    403: "The request comes from a page of another site.",
    404: "There is no such task.",
    408: "The body came too slowly.",
    409: "Another task is being learned, or this name is taken.",
    413: "The request is too large.",
    415: "The body is of a kind that is not taken.",
    421: "The request is meant for another server.",
    422: "The request cannot be understood.",
    503: "The server is busy.",
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer instead, beside what every route may."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in sorted({401, 421, 422, *statuses}):
        found[status] = {"model": Detail, "description": DETAILS[status]}
    return found


class Option(NamedTuple):
    """Something that a request may ask for in its address: how it is read, what it is in words, and its schema."""

    read: Callable[[str], Any]
    meaning: str
    schema: dict[str, Any]


def _read_share(value: str) -> float:
    if not 0 <= float(value) <= 1:
        raise ValueError
    return float(value)


FLAG = Option({"true": True, "false": False}.__getitem__, "true or false", {"type": "boolean", "default": False})
SHARE = Option(_read_share, "a number from 0 to 1", {"type": "number", "minimum": 0, "maximum": 1})
NAMES = Option(
    lambda value: [value],
    "a name; once for each",
    {"type": "array", "items": {"type": "string"}, "default": []},
)


def share(default: float) -> Option:
    """A share that has a default."""
    return SHARE._replace(schema={**SHARE.schema, "default": default})


def parameters(options: Mapping[str, Option]) -> list[dict[str, Any]]:
    """Options as OpenAPI declares them."""
    return [
        {"name": name, "in": "query", "required": False, "schema": option.schema} for name, option in options.items()
    ]


def listing(name: str, items: dict[str, Any]) -> dict[str, Any]:
    """An object that holds one list."""
    return {
        "type": "object",
        "properties": {name: {"type": "array", "items": items, "minItems": 1}},
        "required": [name],
        "additionalProperties": False,
    }


IMAGES = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff")
NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
FILE = {"schema": {"type": "string", "format": "binary"}}
QUESTION = {
    "description": "Rows of the zoo's shape (`GET /tasks` tells it), objects by its `columns`, image files of any size, or texts.",
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "oneOf": [listing("rows", {"type": ["array", "object"]}), listing("texts", {"type": "string"})],
            },
        },
        "application/octet-stream": FILE,
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {"image": {"type": "array", "items": {"type": "string", "format": "binary"}}},
                "required": ["image"],
            },
        },
        **dict.fromkeys(IMAGES, FILE),
    },
}
ARCHIVE = {
    "description": "A zip, tar or tar.gz with one folder of images for each class.",
    "required": True,
    "content": dict.fromkeys(
        ("application/zip", "application/x-tar", "application/gzip", "application/octet-stream"), FILE
    ),
}
