"""Kernels: templates compiled for a device, and launches with arguments checked against the signature."""

from .kernel import Kernel as Kernel
