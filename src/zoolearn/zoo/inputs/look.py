"""What data looks like before it is read: kind, colours and size."""

from dataclasses import dataclass
from typing import Literal

LARGEST_KEPT = 96  # square images up to this side keep their size


@dataclass(frozen=True)
class Look:
    """Images of a (median) height and width, or features, `width` of them; `uniform` if all have that size.

    >>> Look("images", channels=1, height=28, width=28, uniform=True).side
    28
    """

    kind: Literal["images", "features", "texts"]
    channels: int = 1
    height: int = 1
    width: int = 1
    uniform: bool = False
    dtype: str = "uint8"
    columns: tuple[str, ...] = ()  # the names that a table gives to features

    @property
    def side(self) -> int | None:
        """The side that all images share, if they are square and small enough to be taken as they are."""
        return self.height if self.uniform and self.height == self.width <= LARGEST_KEPT else None

    def __str__(self) -> str:
        if self.kind == "texts":
            return "texts"
        if self.kind == "features":
            return f"{self.width} feature{'s' * (self.width != 1)}, {self.dtype}"
        size = f"{self.width}x{self.height}" if self.uniform else f"about {self.width}x{self.height}"
        return f"{'grey' if self.channels == 1 else 'colour'} images of {size} pixels, {self.dtype}"
