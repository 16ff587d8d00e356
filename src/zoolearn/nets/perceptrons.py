"""Backbones for inputs that are no pictures, or small ones: hidden layers of units, or none at all."""

from math import prod

from torch import nn

from zoolearn.nets.backbones import Shape


def identity(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """Nothing: heads are linear in the inputs themselves, as is right for pre-trained features."""
    return nn.Flatten()


def mlp(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """Two hidden layers of 256 units; 269,322 weights with a 10-way head on 28x28 images."""
    return _perceptron(shape, 256, dropout)


def mlp_100(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """Two hidden layers of 100 units; 89,610 weights with a 10-way head on 28x28 images."""
    return _perceptron(shape, 100, dropout)


def mlp_2000(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """Two hidden layers of 2000 units; 5,592,010 weights with a 10-way head on 28x28 images."""
    return _perceptron(shape, 2000, dropout)


def tabular(shape: Shape, dropout: float = 0.0) -> nn.Module:
    """Two hidden layers of 256 units over columns of any scale: each net first brings them to mean 0 and deviation 1."""
    norm = nn.BatchNorm1d(prod(shape), affine=False)
    return nn.Sequential(nn.Flatten(), norm, _perceptron((prod(shape),), 256, dropout))


def _perceptron(shape: Shape, width: int, dropout: float) -> nn.Module:
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs in (prod(shape), width):
        layers += [nn.Linear(inputs, width), nn.ReLU(inplace=True)]
        if dropout:
            layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers)
