"""What learns: small networks with one backbone and a linear head for each task.

`net.Net` is the network; `backbones` names the functions that build what turns inputs into features: the paper's is there,
those without convolutions are in `perceptrons`, larger ones of other papers in `published`. A net knows how its inputs are
scaled, and how to be saved and built again.
"""
