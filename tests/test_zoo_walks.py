"""Some lives of zoos in which anything is done in any order; `python tests/zoo_walks.py` takes as many as one likes."""

import pytest

from zoo_walks import walk

pytestmark = pytest.mark.slow  # zoos are grown


@pytest.mark.parametrize("seed", [11, 1000, 3007, 3008])
def test_whatever_is_done_to_a_zoo_it_stays_whole_and_says_what_it_does(tmp_path, seed) -> None:
    assert walk(tmp_path, seed, steps=14)
