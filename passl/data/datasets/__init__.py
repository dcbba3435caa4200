# SPDX-License-Identifier: Apache-2.0
"""Data sets: files on disk or arrays in memory as RGB images with labels."""

from .base import ImageDataset
from .cifar import CIFAR10, CIFAR100
from .fake import FakeImages
from .fashion_mnist import FashionMNIST
from .folder import ImageFiles, ImageFolder
from .image import UnreadableImage, read_image
from .image_list import ImageList
from .imagenet import ImageNet

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "FakeImages",
    "FashionMNIST",
    "ImageDataset",
    "ImageFiles",
    "ImageFolder",
    "ImageList",
    "ImageNet",
    "UnreadableImage",
    "read_image",
]
