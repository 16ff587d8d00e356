"""The folder of a zoo: rows and nets under their checksums, and an index to which a change costs what it adds.

A head says what the zoo is, and replacing it is what makes a change happen; journals beside it grow by a line an episode.
What is read is checked, and only what is asked for is read.
"""
