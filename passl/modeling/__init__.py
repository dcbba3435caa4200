# SPDX-License-Identifier: Apache-2.0
"""Backbones, heads and the layers they share."""
