"""One image, from a file of any common format to the zoo's pixels; the same for learning, predicting and serving.

The largest centred part that has the zoo's proportions is cut out and resized (bicubic, smoothed when it shrinks): the
shorter side fits exactly and nothing is stretched. The camera's orientation mark is obeyed, transparent is white, 16 bits
become the upper 8, colours and grey are turned into each other as the zoo needs.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from zoolearn.errors import DataError
from zoolearn.nets.backbones import Shape

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = (
    "AVIF", "BMP", "GIF", "HEIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP",
)  # none starts a program, or decodes early  # fmt: skip
BY_SUFFIX = {".tga": "TGA"}  # a format that anything may look like
HEIF = frozenset({".heic", ".heif"})
SUFFIXES = HEIF | {
    ".avif", ".bmp", ".gif", ".jp2", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tga", ".tif", ".tiff", ".webp",
}  # fmt: skip
MOST_PIXELS = 80_000_000  # a file of a few bytes can claim to be an image of any size


Made = TypeVar("Made")


class Undecodable(Exception):
    """An image file that cannot be read; the message says why."""


@dataclass(frozen=True)
class Size:
    """The size of an image as it is meant to be seen, and whether it has no colours."""

    height: int
    width: int
    is_grey: bool


def picture_size(source: Path | IO[bytes]) -> Size:
    """The size that a file's header tells."""
    return _with_image(source, _size)


def pixel_count(source: Path | IO[bytes]) -> int:
    """The number of pixels that a file's header tells; nothing is decoded."""
    return _with_image(source, lambda image: image.width * image.height)


def decode_picture(source: Path | IO[bytes], shape: Shape) -> NDArray[np.uint8]:
    """The pixels of an image file, brought to (channels, height, width)."""
    return _with_image(source, lambda image: _fit(image, shape))


def is_open_picture(thing: object) -> bool:
    """Whether this is a picture of Pillow, which is not imported for it."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(thing, pillow.Image)


def to_pixels(picture: Any, shape: Shape) -> NDArray[np.uint8]:
    """The pixels of an open picture, brought to (channels, height, width) as those of files are."""
    try:
        return _fit(picture.copy(), shape)
    except Undecodable as error:
        raise DataError(f"a picture of mode {picture.mode!r} cannot be taken: {error}") from error
    except OSError as error:  # it is opened, but its pixels were not read before
        raise DataError("a picture cannot be read: it is damaged") from error


def fit_pixels(pixels: NDArray[np.uint8], shape: Shape) -> NDArray[np.uint8]:
    """An image (channels, height, width) brought to another size or number of channels.

    >>> fit_pixels(np.full((1, 8, 12), 7, np.uint8), (3, 4, 4)).tolist() == np.full((3, 4, 4), 7).tolist()
    True
    """
    from PIL import Image

    planes = pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
    return _fit(Image.fromarray(np.ascontiguousarray(planes)), shape)


def is_picture(path: Path) -> bool:
    """Whether a file is a picture: by the end of its name, or else by its first bytes."""
    if path.suffix.lower() in SUFFIXES:
        return True
    try:
        picture_size(path)
    except Undecodable:
        return False
    return True


def _with_image(source: Path | IO[bytes], use: "Callable[[Image], Made]") -> Made:
    from PIL import Image, UnidentifiedImageError

    suffix = source.suffix.lower() if isinstance(source, Path) else ""
    try:
        with Image.open(source, formats=_formats(suffix)) as image:
            if image.width * image.height > MOST_PIXELS:
                raise Undecodable(f"it has {image.width}x{image.height} pixels, more than {MOST_PIXELS:,}")
            return use(image)
    except Undecodable:
        raise
    except FileNotFoundError as error:
        raise Undecodable("there is no such file") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise Undecodable(f"it has more than {MOST_PIXELS:,} pixels") from error
    except Exception as error:  # decoders of damaged files fail in many ways
        if isinstance(error, UnidentifiedImageError) and suffix in HEIF and "HEIF" not in _formats():
            raise Undecodable("to read it takes pillow-heif; install it with: pip install 'zoolearn[heic]'") from error
        raise Undecodable("it is damaged or no image") from error


@cache
def _formats(suffix: str = "") -> tuple[str, ...]:
    """Those of our formats that this installation of Pillow, with or without pillow-heif, can read."""
    from PIL import Image

    Image.init()
    with suppress(ImportError):
        from pillow_heif import register_heif_opener

        register_heif_opener()
    known = (*FORMATS, *filter(None, [BY_SUFFIX.get(suffix)]))
    return tuple(name for name in known if name in Image.OPEN)


def _size(image: "Image") -> Size:
    turned = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
    width, height = (image.height, image.width) if turned else (image.width, image.height)
    return Size(height, width, image.mode in ("1", "L", "LA", "I", "I;16", "I;16B", "I;16L", "I;16N"))


def _fit(image: "Image", shape: Shape) -> NDArray[np.uint8]:
    from PIL import Image, ImageOps

    channels, height, width = shape
    image.draft(None, (2 * max(width, height),) * 2)  # a JPEG is decoded at a half, quarter or eighth of its size
    ImageOps.exif_transpose(image, in_place=True)  # else a copy of 48 MB for 12 megapixels, as `convert` makes one
    image, mode = _flat(image), "L" if channels == 1 else "RGB"
    if image.mode != mode:
        image = image.convert(mode)
    if image.size != (width, height):
        image = ImageOps.fit(image, (width, height), Image.Resampling.BICUBIC)
    pixels = np.asarray(image)
    return np.ascontiguousarray(pixels[None] if channels == 1 else pixels.transpose(2, 0, 1))


def _flat(image: "Image") -> "Image":
    """The image in 8 bits and without transparency."""
    from PIL import Image

    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min(initial=0) < 0 or values.max(initial=0) > 0xFFFF:
            raise Undecodable("its values are beyond 16 bits; convert it to 8 bits")
        return Image.fromarray((values >> 8).astype(np.uint8))
    if image.mode == "F":
        raise Undecodable("its values are real numbers, which have no agreed range; convert it to 8 bits")
    if image.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        picture = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return image
