# SPDX-License-Identifier: Apache-2.0
"""CPU threads, memory and math library, chosen before Paddle's first product; static graphs and frozen models.

``import passl`` calls :func:`configure`.  It sets only what the user left unset, and
``PASSL_RUNTIME=off`` keeps it from doing anything.  ``benchmarks/cpu_vs_timm.py --settings`` measures what each
setting brings on the machine at hand.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

_state: dict[str, str] = {}


def configure(threads: int | str = "auto", log: Callable[[str], None] | None = None) -> dict[str, str]:
    """Choose the CPU settings; the second call only changes the threads, and only when a number is given.

    Args:
        threads: threads of a product; "auto" is one for each physical core that this process may use.
        log: told in one line what was chosen.
    Returns:
        What was chosen, setting -> value; empty when switched off.
    """
    if os.environ.get("PASSL_RUNTIME", "").lower() in ("off", "0", "false"):
        return {}
    if not _state:
        _state.update(_choose_math_library())
        _state.update(_keep_freed_memory())
        _state.update(_set_threads("auto"))  # imports Paddle
        _state.update(_copy_on_transpose())
    if threads != "auto":
        _state.update(_set_threads(threads))
    if log is not None and _state:
        log("runtime: " + ", ".join(f"{key} {value}" for key, value in _state.items()))
    return dict(_state)


def compile(model):
    """Have ``model.forward`` run as a static graph, in place; what cannot be traced stays eager, with a warning."""
    model.forward = _StaticOrEager(model)
    return model


class _StaticOrEager:
    """``forward`` of one layer through ``paddle.jit.to_static``, until that fails."""

    def __init__(self, model):
        self.model, self.eager = model, type(model).forward.__get__(model)
        self.static, self.failed = None, False

    def __call__(self, *inputs, **options):
        import paddle

        if self.failed:
            return self.eager(*inputs, **options)
        try:
            if self.static is None:
                self.static = paddle.jit.to_static(self.eager, full_graph=True)
            return self.static(*inputs, **options)
        except Exception as error:
            outputs = self.eager(*inputs, **options)  # a mistake of the caller's shows itself here
            self.failed = True
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            warnings.warn(f"runtime.to_static: {type(self.model).__name__} stays eager: {reason}", stacklevel=2)
            return outputs

    def __deepcopy__(self, memo):
        return _StaticOrEager(memo[id(self.model)])  # the copy of the model, made before its attributes


def freeze(model, image_shape: Sequence[int] = (3, 224, 224)):
    """``model`` in evaluation mode as a function of images, run by Paddle Inference with fused CPU kernels (oneDNN).

    The weights are those of the moment of the call.  Differences to the eager output are rounding errors.

    Args:
        model: a layer, images -> one tensor.
        image_shape: channels, height and width.
    Returns:
        images [B, C, H, W] float32 -> output, both Paddle tensors; B may change from call to call.
    """
    import paddle
    from paddle import inference

    was_training = model.training
    model.eval()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        spec = paddle.static.InputSpec([None, *image_shape], "float32")
        paddle.jit.save(paddle.jit.to_static(model.forward, input_spec=[spec], full_graph=True), path)
        config = inference.Config(folder, "model")
        config.disable_gpu()
        config.enable_mkldnn()
        config.disable_glog_info()
        config.set_cpu_math_library_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        predictor = inference.create_predictor(config)
    if was_training:
        model.train()
    return lambda images: paddle.to_tensor(predictor.run([images])[0].numpy())


def _set_threads(threads: int | str) -> dict[str, str]:
    """Set the OpenMP threads after Paddle's import, which puts them to 1 and warns about any other number."""
    if threads == "auto" and _user_chose_threads():
        return {"threads": os.environ["OMP_NUM_THREADS"]}
    import paddle

    processes = int(os.environ.get("PADDLE_LOCAL_SIZE", "1"))  # of this machine, by paddle.distributed.launch
    count = max(1, physical_cores() // processes) if threads == "auto" else int(threads)
    os.environ["OMP_NUM_THREADS"] = str(count)
    paddle.base.core.set_num_threads(count)
    return {"threads": str(count)}


def _user_chose_threads() -> bool:
    """Whether OMP_NUM_THREADS comes from the user and not from Paddle, which writes 1 when it is imported."""
    value = os.environ.get("OMP_NUM_THREADS")
    if value is None or "paddle" not in sys.modules or value != "1":
        return value is not None
    at_start = Path("/proc/self/environ")
    return at_start.exists() and b"OMP_NUM_THREADS=" in at_start.read_bytes()


def physical_cores() -> int:
    """Physical cores this process may use: by its affinity, hyper-threads counted once, and a container's quota."""
    if not hasattr(os, "sched_getaffinity"):
        return max(1, os.cpu_count() or 1)
    allowed = os.sched_getaffinity(0)
    cores = {_core_of(cpu) for cpu in allowed}
    return max(1, min(len(cores), _container_quota()))


def _core_of(cpu: int) -> str:
    """A key that is equal for hyper-threads of one core."""
    siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    return siblings.read_text().strip() if siblings.exists() else str(cpu)


def _container_quota() -> int:
    """CPUs that the control group grants (``docker run --cpus``), rounded up."""
    limit = Path("/sys/fs/cgroup/cpu.max")
    quota, period = limit.read_text().split() if limit.exists() else ("max", "0")
    return sys.maxsize if quota == "max" else math.ceil(int(quota) / int(period))


def _choose_math_library() -> dict[str, str]:
    """On AMD, keep the bundled mklml from its slow generic path; other vendors are left alone."""
    vendor, flags = _cpu()
    if vendor != "AuthenticAMD" or "MKL_DEBUG_CPU_TYPE" in os.environ or "avx2" not in flags:
        return {}
    os.environ["MKL_DEBUG_CPU_TYPE"] = "7" if "avx512f" in flags else "5"
    return {"MKL_DEBUG_CPU_TYPE": os.environ["MKL_DEBUG_CPU_TYPE"]}


def _cpu() -> tuple[str, set[str]]:
    """Vendor and feature flags of the first CPU, as Linux tells them; elsewhere empty."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    facts: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    return facts.get("vendor_id", ""), set(facts.get("flags", "").split())


def _copy_on_transpose() -> dict[str, str]:
    """Have ``transpose`` write a new tensor at once; else the next operation copies a view element by element.

    GPU builds of Paddle are left alone: there the copy is a fast kernel.
    """
    import paddle

    flag = "FLAGS_use_stride_kernel"
    if flag in os.environ or paddle.is_compiled_with_cuda():
        return {}
    paddle.set_flags({flag: False})
    return {flag: "0"}


def _keep_freed_memory() -> dict[str, str]:
    """Have glibc reuse large blocks instead of returning them to the kernel, which clears every page anew.

    One arena for all threads, else the static executor's threads each keep blocks that the others cannot use.
    """
    if platform.libc_ver()[0] != "glibc" or any(name.startswith("MALLOC_") for name in os.environ):
        return {}
    trim_threshold, top_pad, mmap_max, arena_max = -1, -2, -4, -8  # glibc's malloc.h
    mallopt = ctypes.CDLL(None).mallopt
    for option, value in ((arena_max, 1), (mmap_max, 0), (trim_threshold, 2**31 - 1), (top_pad, 64 << 20)):
        mallopt(option, value)
    return {"malloc": "keeps freed memory"}
