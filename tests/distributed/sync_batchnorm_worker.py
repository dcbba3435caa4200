# SPDX-License-Identifier: Apache-2.0
"""One training pass of SyncBatchNorm on this process's half of a batch, in float64; prints what came of it."""

import json
import sys

import numpy as np
import paddle
from paddle import nn

from passl.modeling.layers import SyncBatchNorm, convert_sync_batchnorm
from passl.utils import distributed


def main():
    distributed.start()
    paddle.set_default_dtype("float64")
    x, weight = np.load(sys.argv[1]).values()
    rows = len(x) // distributed.world_size()
    mine = slice(distributed.rank() * rows, (distributed.rank() + 1) * rows)
    model = convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2D(x.shape[1])))
    assert isinstance(model[0], SyncBatchNorm)
    images = paddle.to_tensor(x[mine], stop_gradient=False)
    y = model(images)
    (y * paddle.to_tensor(weight[mine])).sum().backward()
    result = {"y": y, "x_grad": images.grad, "mean": model[0]._mean, "variance": model[0]._variance}
    result["weight_grad"] = distributed.all_reduce(model[0].weight.grad)
    print(json.dumps({name: tensor.numpy().tolist() for name, tensor in result.items()}))


if __name__ == "__main__":
    main()
