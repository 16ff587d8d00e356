"""Extractors by name: the path of an ONNX file, or the name of a library's extractor."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from zoolearn.errors import MissingData, SettingsError, unknown_name
from zoolearn.features.extractor import Extractor

END = ":"  # of a name, so that no file is taken for one


def is_name(word: str) -> bool:
    """Whether a word names an extractor of a library rather than a file.

    >>> is_name("wordllama:"), is_name("nets/lite0.onnx")
    (True, False)
    """
    return word.endswith(END)


def load_function(word: str) -> Callable[[Any], Any]:
    """The function of a library's extractor; it takes texts."""
    if word not in LIBRARIES:
        raise SettingsError(unknown_name("extractor", word, LIBRARIES) + "; a file is given by its path")
    return LIBRARIES[word]()


def load_extractor(word: str) -> Extractor:
    """The named extractor, checked and tried."""
    return Extractor.of_function(load_function(word), word) if is_name(word) else Extractor.of_file(Path(word))


def _wordllama() -> Callable[[Any], Any]:
    """Word vectors of a large language model, averaged over a text: 256 features, English, a tenth of a millisecond."""
    try:
        import wordllama
    except ImportError as error:
        raise MissingData(
            f"features of texts need {error.name}; install it with: pip install 'zoolearn[text]'"
        ) from error
    package = Path(wordllama.__file__).parent  # by itself it looks for files where its package has none, and downloads
    net: Any = wordllama.WordLlama.load(cache_dir=package, disable_download=True)
    embed: Callable[[Any], Any] = net.embed
    return embed


LIBRARIES: dict[str, Callable[[], Callable[[Any], Any]]] = {"wordllama:": _wordllama}
