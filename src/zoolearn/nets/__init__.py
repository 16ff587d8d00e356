"""What learns: small networks with one backbone and a linear head for each task.

`net.Net` is the network; `backbones` are functions that build what turns inputs into features, and `published` holds
those that single methods were published with. A net knows how its inputs are scaled, and how to be saved and built again.
"""
