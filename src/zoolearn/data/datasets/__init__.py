"""Publishers' own files become tensors: readers for each data set, where their files are kept, and how to get them."""

from zoolearn.data.datasets.cifar import cifar10, cifar100
from zoolearn.data.datasets.dataset import DataSet
from zoolearn.data.datasets.digits import digits
from zoolearn.data.datasets.downloads import download
from zoolearn.data.datasets.mini_imagenet import mini_imagenet
from zoolearn.data.datasets.mnist import mnist
from zoolearn.data.datasets.root import data_root
from zoolearn.data.datasets.status import Status, status

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
