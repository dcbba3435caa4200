# SPDX-License-Identifier: Apache-2.0
"""Optimizers over groups of parameters, with state that is saved under structured names.

Each update is one fused Paddle kernel per parameter.  On a CPU this takes as long as
``paddle.optimizer.AdamW``, and less than one pass over a flat buffer, which has to gather the
gradients first.  A parameter without a gradient is left alone: no decay, no momentum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import paddle
from paddle import _C_ops, nn

from passl.utils.errors import CheckpointError
from passl.utils.registry import OPTIMIZERS

from .clip import squared_norm


class Optimizer(ABC):
    """What the trainer, ``paddle.amp.GradScaler`` and the checkpoints ask of an optimizer.

    Args:
        parameters: tensors, or groups ``{"params": tensors, "learning_rate": multiplier, "weight_decay": value}``
            as :func:`passl.optim.param_groups` makes them.
        learning_rate: rate of the first step, until :meth:`set_lr` changes it.
        weight_decay: decay of the groups that name none.
    Raises:
        ValueError: no parameters, one parameter twice, or one that is not float32.
    """

    def __init__(self, parameters: Iterable[Any], learning_rate: float, weight_decay: float = 0.0):
        groups = list(parameters)
        if groups and not isinstance(groups[0], Mapping):
            groups = [{"params": groups}]
        self.groups = [{"learning_rate": 1.0, "weight_decay": weight_decay, **group} for group in groups]
        self._parameter_list = [p for group in self.groups for p in group["params"]]  # GradScaler reads this name
        _check(self._parameter_list)
        self._lr = float(learning_rate)
        self._state: dict[int, dict[str, paddle.Tensor]] = {}

    @property
    def parameters(self) -> list[paddle.Tensor]:
        """All parameters, group by group."""
        return self._parameter_list

    def get_lr(self) -> float:
        """The learning rate before the groups' multipliers."""
        return self._lr

    def set_lr(self, value: float) -> None:
        """Use ``value``, times each group's multiplier, from the next step on."""
        self._lr = float(value)

    def clear_grad(self) -> None:
        """Drop all gradients (None, not zeros: see the module)."""
        for parameter in self._parameter_list:
            parameter.clear_gradient(False)  # set_to_zero, by position: Paddle passes over the keyword

    @paddle.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        for group in self.groups:
            rate = paddle.full([1], self._lr * group["learning_rate"], dtype="float32")
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is not None and not parameter.stop_gradient:
                    self.update(parameter, gradient, self.state_of(parameter), rate, group["weight_decay"])

    def state_of(self, parameter: paddle.Tensor) -> dict[str, paddle.Tensor]:
        """The parameter's buffers by name, made when first asked for."""
        if id(parameter) not in self._state:
            self._state[id(parameter)] = self.initial_state(parameter)
        return self._state[id(parameter)]

    def has_state(self, parameter: paddle.Tensor) -> bool:
        """Whether the parameter was ever updated."""
        return id(parameter) in self._state

    def replace_state(self, state: dict[int, dict[str, paddle.Tensor]]) -> None:
        """Take over buffers by parameter id; parameters without an entry start fresh."""
        self._state = state

    @abstractmethod
    def initial_state(self, parameter: paddle.Tensor) -> dict[str, paddle.Tensor]:
        """Fresh buffers for one parameter."""

    @abstractmethod
    def update(self, parameter, gradient, state: dict[str, paddle.Tensor], rate, decay: float) -> None:
        """Change ``parameter`` and ``state`` in place; ``rate`` is a tensor [1]."""


def _check(parameters: list[paddle.Tensor]) -> None:
    if not parameters:
        raise ValueError("the optimizer got no parameters: is everything frozen?")
    if len({id(p) for p in parameters}) != len(parameters):
        raise ValueError("a parameter occurs in two groups")
    for parameter in parameters:
        if parameter.dtype != paddle.float32:
            raise ValueError(
                f"parameter {parameter.name} is {parameter.dtype}: keep parameters in float32 and use amp level O1"
            )


@OPTIMIZERS.register()
class AdamW(Optimizer):
    """Adam with decoupled weight decay.

    Paper: Decoupled Weight Decay Regularization, ICLR 2019, https://arxiv.org/abs/1711.05101, algorithm 2,
    with the decay multiplied by the learning rate, as in PyTorch

    Args:
        parameters, learning_rate, weight_decay: see :class:`Optimizer`.
        beta1: decay of the mean of gradients, in [0, 1).
        beta2: decay of the mean of squared gradients, in [0, 1).
        epsilon: added to the root of the bias-corrected second moment.
    """

    def __init__(
        self, parameters: Iterable[Any], learning_rate: float, weight_decay: float = 0.01, beta1: float = 0.9,
        beta2: float = 0.999, epsilon: float = 1e-8,
    ):  # fmt: skip
        super().__init__(parameters, learning_rate, weight_decay)
        self.beta1, self.beta2, self.epsilon = float(beta1), float(beta2), float(epsilon)

    def initial_state(self, parameter):
        return {
            "exp_avg": paddle.zeros_like(parameter),
            "exp_avg_sq": paddle.zeros_like(parameter),
            "beta1_power": paddle.full([1], self.beta1, dtype="float32").cpu(),  # the kernel reads these on the host
            "beta2_power": paddle.full([1], self.beta2, dtype="float32").cpu(),
        }

    def update(self, parameter, gradient, state, rate, decay):
        _C_ops.adamw_(
            parameter,
            gradient,
            rate,
            state["exp_avg"],
            state["exp_avg_sq"],
            None,  # maximum of the second moment (AMSGrad)
            state["beta1_power"],
            state["beta2_power"],
            None,  # float32 copy of a half-precision parameter
            None,  # skip the update
            self.beta1,
            self.beta2,
            self.epsilon,
            1.0,  # factor on the learning rate
            float(decay),
            decay != 0,
            False,  # lazy mode of sparse gradients
            1000,  # rows from which a sparse update is threaded
            False,  # multi_precision
            False,  # shared beta powers
            False,  # AMSGrad
        )


def _momentum_update(parameter, gradient, velocity, rate, momentum, nesterov=False, decay=0.0):
    """v = momentum * v + g + decay * p; p -= rate * v, or rate * (g + momentum * v) with Nesterov."""
    _C_ops.momentum_(
        parameter,
        gradient,
        velocity,
        rate,
        None,  # float32 copy of a half-precision parameter
        momentum,
        nesterov,
        "l2_decay" if decay else "",
        float(decay),
        False,  # multi_precision
        1.0,  # factor on the gradient
    )


@OPTIMIZERS.register()
class SGD(Optimizer):
    """Stochastic gradient descent with momentum; the weight decay is added to the gradient.

    The learning rate multiplies the velocity (not the gradient in it), as in PyTorch, so that it
    may change between steps.

    Args:
        parameters, learning_rate, weight_decay: see :class:`Optimizer`.
        momentum: decay of the velocity, in [0, 1).
        nesterov: look ahead by one velocity step.
    """

    def __init__(
        self, parameters: Iterable[Any], learning_rate: float, weight_decay: float = 0.0, momentum: float = 0.9,
        nesterov: bool = False,
    ):  # fmt: skip
        super().__init__(parameters, learning_rate, weight_decay)
        self.momentum, self.nesterov = float(momentum), bool(nesterov)

    def initial_state(self, parameter):
        return {"velocity": paddle.zeros_like(parameter)}

    def update(self, parameter, gradient, state, rate, decay):
        _momentum_update(parameter, gradient, state["velocity"], rate, self.momentum, self.nesterov, decay)


@OPTIMIZERS.register()
class LARS(Optimizer):
    """SGD whose step in each layer is proportional to the norm of its weights.

    Paper: Large Batch Training of Convolutional Networks, 2017, https://arxiv.org/abs/1708.03888

    With g' = g + decay * p, the velocity takes trust * |p| / |g'| * g'.  This is the version of MoCo v3,
    MAE, Barlow Twins and VICReg; the paper and timm divide by |g| + decay * |p|.  Tensors with fewer than
    two axes (biases, norms) get neither decay nor trust ratio.

    Args:
        parameters, learning_rate, weight_decay: see :class:`Optimizer`.
        momentum: decay of the velocity, in [0, 1).
        trust_coefficient: eta, the share of |p| that a step of rate 1 may change.
    """

    def __init__(
        self, parameters: Iterable[Any], learning_rate: float, weight_decay: float = 0.0, momentum: float = 0.9,
        trust_coefficient: float = 0.001,
    ):  # fmt: skip
        super().__init__(parameters, learning_rate, weight_decay)
        self.momentum, self.trust_coefficient = float(momentum), float(trust_coefficient)

    def initial_state(self, parameter):
        return {"velocity": paddle.zeros_like(parameter)}

    def update(self, parameter, gradient, state, rate, decay):
        if parameter.ndim >= 2:
            gradient = gradient + decay * parameter
            length = squared_norm(gradient).sqrt()
            ratio = self.trust_coefficient * squared_norm(parameter).sqrt() / length
            usable = (ratio > 0) & (length > 0)  # a zero weight or gradient is left to plain SGD
            gradient.multiply_(paddle.where(usable, ratio, paddle.ones_like(ratio)))
        _momentum_update(parameter, gradient, state["velocity"], rate, self.momentum)


def optimizer_state(optimizer: Optimizer, model: nn.Layer) -> dict[str, np.ndarray]:
    """Every buffer as ``<buffer>/<parameter name in the model>``, e.g. ``exp_avg/architecture.norm.weight``.

    The names do not depend on the order in which layers were created, as Paddle's tensor names do.
    """
    arrays = {}
    for name, parameter in _named(optimizer, model).items():
        if optimizer.has_state(parameter):
            for slot, tensor in optimizer.state_of(parameter).items():
                arrays[f"{slot}/{name}"] = tensor.numpy()
    return arrays


def load_optimizer_state(optimizer: Optimizer, model: nn.Layer, arrays: Mapping[str, np.ndarray]) -> None:
    """Restore what :func:`optimizer_state` returned, bit by bit.

    A parameter that had no state yet (never updated) starts fresh.

    Raises:
        CheckpointError: a buffer is missing, unknown, or has another shape; nothing is changed then.
    """
    kind, named = type(optimizer).__name__, _named(optimizer, model)
    owners = sorted({key.partition("/")[2] for key in arrays})
    states = {name: optimizer.initial_state(named[name]) for name in owners if name in named}
    expected = {f"{slot}/{name}": tensor for name, state in states.items() for slot, tensor in state.items()}
    problems = [f"{key} is not known to {kind} on this model" for key in arrays if key not in expected]
    problems += [f"{key} is missing" for key in expected if key not in arrays]
    problems += [
        f"{key} has shape {list(arrays[key].shape)}, expected {list(tensor.shape)}"
        for key, tensor in expected.items()
        if key in arrays and list(arrays[key].shape) != list(tensor.shape)
    ]
    if problems:
        shown = "\n  - ".join(problems[:10])
        raise CheckpointError(
            f"the optimizer state does not fit ({len(problems)} problems): same optimizer, model and frozen layers?"
            f"\n  - {shown}"
        )
    for key, tensor in expected.items():
        tensor.set_value(arrays[key])
    optimizer.replace_state({id(named[name]): state for name, state in states.items()})


def _named(optimizer: Optimizer, model: nn.Layer) -> dict[str, paddle.Tensor]:
    """The optimizer's parameters by their name in ``model``."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    strangers = [p.name for p in optimizer.parameters if id(p) not in names]
    if strangers:
        raise ValueError(f"the optimizer holds parameters that are not in the model: {', '.join(strangers[:5])}")
    return {names[id(p)]: p for p in optimizer.parameters}
