"""People's own data: folders of images, arrays, tables and saved data sets as rows that a zoo can learn from.

A `Source` knows its labels at once and reads its rows in blocks when needed, so that nothing has to fit in memory.
"""

from zoolearn.zoo.inputs.find import iter_blocks, open_pair, open_source
from zoolearn.zoo.inputs.look import Look
from zoolearn.zoo.inputs.source import Block, Broken, Source
from zoolearn.zoo.inputs.tables import Columns

__all__ = ["Block", "Broken", "Columns", "Look", "Source", "iter_blocks", "open_pair", "open_source"]
