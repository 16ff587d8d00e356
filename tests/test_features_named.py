"""Extractors that are given by a word: files by their paths, those of libraries by their names."""

import sys

import numpy as np
import pytest

from zoolearn.errors import DataError, MissingData, SettingsError
from zoolearn.features import Extractor, embed_inputs
from zoolearn.features.named import load_extractor, load_function


def test_a_misspelt_name_is_told_and_a_path_is_a_path(tmp_path) -> None:
    with pytest.raises(SettingsError, match="did you mean 'wordllama:'"):
        load_extractor("wordlama:")
    with pytest.raises(DataError, match=r"absent\.onnx cannot be read"):
        load_extractor(str(tmp_path / "absent.onnx"))


def test_without_its_library_the_error_says_how_to_install_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(MissingData, match=r"pip install 'zoolearn\[text\]'"):
        load_extractor("wordllama:")


def test_texts_about_the_same_lie_near_each_other() -> None:
    pytest.importorskip("wordllama")
    extractor = load_extractor("wordllama:")
    asked = ["Where is my parcel?", "When does the package arrive?", "The invoice shows a wrong price."]
    rows = embed_inputs(extractor, asked).astype(np.float64) / 2**15
    near = rows @ rows.T
    assert near[0, 1] > max(near[0, 2], near[1, 2])
    np.testing.assert_array_equal(embed_inputs(extractor, asked[1:2]), embed_inputs(extractor, asked)[1:2])
    with pytest.raises(DataError, match="input 1 has no features"):
        embed_inputs(extractor, ["Where?", ""])
    Extractor.of_function(load_function("wordllama:"), "wordllama:", record=extractor.record())
