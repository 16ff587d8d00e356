"""The tables and ablations of the paper (Ramesh and Chaudhari, 2022) as presets, and what came out here beside them."""
