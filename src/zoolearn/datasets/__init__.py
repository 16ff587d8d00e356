"""Publishers' own files become tensors: readers for each data set, where their files are kept, and how to get them."""

from zoolearn.datasets.cifar import cifar10, cifar100
from zoolearn.datasets.dataset import DataSet
from zoolearn.datasets.digits import digits
from zoolearn.datasets.downloads import download
from zoolearn.datasets.mini_imagenet import mini_imagenet
from zoolearn.datasets.mnist import mnist
from zoolearn.datasets.root import data_root
from zoolearn.datasets.status import Status, status

__all__ = [
    "DataSet",
    "Status",
    "cifar10",
    "cifar100",
    "data_root",
    "digits",
    "download",
    "mini_imagenet",
    "mnist",
    "status",
]
