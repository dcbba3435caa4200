# SPDX-License-Identifier: Apache-2.0
"""passl: self-supervised learning and vision backbones on PaddlePaddle.

>>> import passl
>>> passl.list_models("cait*")
>>> model = passl.create_model("cait_s24_224", num_classes=10)
"""

from __future__ import annotations

import importlib.util
import warnings

__version__ = "0.1.0"

if importlib.util.find_spec("paddle") is None:
    raise ImportError(
        "passl needs PaddlePaddle 3.0 or newer, which is not installed. CPU: pip install 'paddlepaddle>=3.0'; "
        "GPU: choose the wheel for your CUDA version at https://www.paddlepaddle.org.cn/install/quick"
    )

# Paddle says these on every import and every training BatchNorm; neither is a user's concern.
warnings.filterwarnings("ignore", message="No ccache found")
warnings.filterwarnings("ignore", message="When training, we now always track")

from . import runtime

runtime.configure()  # before Paddle's first product: see runtime.py

from .catalogue import create_model, list_models

__all__ = ["__version__", "create_model", "list_models"]
