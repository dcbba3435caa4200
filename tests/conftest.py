# SPDX-License-Identifier: Apache-2.0
"""One thread for each test process: the tests run side by side, one process for each core."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before anything imports Paddle
