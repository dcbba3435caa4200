# SPDX-License-Identifier: Apache-2.0
"""What one of two processes computes with the collectives and with NT-Xent; saved as ``<folder>/<rank>.npz``."""

import sys
from pathlib import Path

import numpy as np
import paddle
from paddle import nn

from passl.losses import NTXent
from passl.optim import AdamW
from passl.utils import distributed


def half(array):
    """This process's rows."""
    return np.split(array, distributed.world_size())[distributed.rank()]


def collectives(found):
    """Each collective on a tensor that differs between the processes."""
    own = paddle.to_tensor([1.0, 10.0]) * (distributed.rank() + 1)
    found["all_reduce"] = distributed.all_reduce(own)
    found["all_reduce_left"] = own
    found["all_gather"] = distributed.all_gather(own)
    found["all_gather_int64"] = distributed.all_gather(paddle.to_tensor([distributed.rank()] * 2))
    sent = own.clone()
    distributed.broadcast(sent, source=1)
    found["broadcast"] = sent
    objects = distributed.all_gather_object({"rank": distributed.rank(), "text": "x" * (1 + 1000 * distributed.rank())})
    found["all_gather_object"] = np.array([[o["rank"], len(o["text"])] for o in objects])
    distributed.barrier()


def collectives_with_gradient(found):
    """Gradients of a loss whose weights differ between the processes."""
    own = paddle.to_tensor([1.0, 10.0]) * (distributed.rank() + 1)
    weights = paddle.to_tensor([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]])[distributed.rank()]
    for name in ("all_reduce_with_gradient", "all_gather_with_gradient"):
        leaf = own.clone().detach()
        leaf.stop_gradient = False
        result = getattr(distributed, name)(leaf)
        (result * weights[: result.shape[0]]).sum().backward()
        found[name], found[f"{name}_gradient"] = result, leaf.grad


def nt_xent(found, inputs):
    """Loss of this process and gradient of its own rows."""
    z0, z1 = (paddle.to_tensor(half(inputs[key]), stop_gradient=False) for key in ("z0", "z1"))
    loss = NTXent(0.1)(z0, z1)
    loss.backward()
    found.update(loss=loss, z0_gradient=z0.grad, z1_gradient=z1.grad)


class Projector(nn.Layer):
    """A projector together with its loss, as a method has them."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 8))
        self.loss = NTXent(0.2)

    def forward(self, z0, z1):
        return self.loss(self.net(z0), self.net(z1))


def train(inputs, steps=3):
    """Losses and weights of a few data-parallel steps from fixed weights."""
    rng = np.random.default_rng(0)
    model = Projector()
    model.set_state_dict({k: rng.normal(0, 0.3, v.shape).astype("float32") for k, v in model.state_dict().items()})
    wrapped = paddle.DataParallel(model) if distributed.world_size() > 1 else model
    optimizer = AdamW(model.parameters(), 0.01)
    z0, z1 = (paddle.to_tensor(half(inputs[key])) for key in ("z0", "z1"))
    losses, first_gradient = [], None
    for _ in range(steps):
        loss = wrapped(z0, z1)
        loss.backward()
        if first_gradient is None:
            first_gradient = model.net[0].weight.grad.numpy()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(distributed.all_reduce(loss)) / distributed.world_size())
    return {"losses": losses, "first_gradient": first_gradient, "weight": model.net[0].weight}


def main():
    folder = Path(sys.argv[1])
    distributed.start()
    inputs = np.load(folder / "inputs.npz")
    found = {}
    collectives(found)
    collectives_with_gradient(found)
    nt_xent(found, inputs)
    found.update({f"train_{key}": value for key, value in train(inputs).items()})
    np.savez(folder / f"{distributed.rank()}.npz", **{key: np.asarray(value) for key, value in found.items()})


if __name__ == "__main__":
    main()
