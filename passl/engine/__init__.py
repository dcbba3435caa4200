# SPDX-License-Identifier: Apache-2.0
"""The engine: set-up from a config, the training loop, evaluation and checkpoints."""
