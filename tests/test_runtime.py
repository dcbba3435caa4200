# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import os
import subprocess
import sys

import paddle
import pytest
from paddle import nn

from passl import runtime


@pytest.fixture
def fresh(monkeypatch):
    """The module as before its first use, with the calls that would change this process recorded instead."""
    calls = []
    monkeypatch.setattr(runtime, "_state", {})
    monkeypatch.setattr(runtime, "_keep_freed_memory", lambda: {})
    monkeypatch.setattr(paddle.base.core, "set_num_threads", calls.append)
    monkeypatch.setattr(paddle, "set_flags", lambda flags: calls.append(flags))
    for name in ("OMP_NUM_THREADS", "MKL_DEBUG_CPU_TYPE", "FLAGS_use_stride_kernel", "PASSL_RUNTIME"):
        monkeypatch.setenv(name, "")  # so that it is restored afterwards
        monkeypatch.delenv(name)
    return calls


@pytest.mark.parametrize(
    ("vendor", "flags", "expected"),
    [
        ("AuthenticAMD", {"avx2"}, "5"),
        ("AuthenticAMD", {"avx2", "avx512f"}, "7"),
        ("AuthenticAMD", {"sse4_2"}, None),
        ("GenuineIntel", {"avx2", "avx512f"}, None),
        ("", set(), None),
    ],
)
def test_only_amd_gets_a_math_library_path(fresh, monkeypatch, vendor, flags, expected):
    monkeypatch.setattr(runtime, "_cpu", lambda: (vendor, flags))
    assert runtime.configure().get("MKL_DEBUG_CPU_TYPE") == expected
    assert os.environ.get("MKL_DEBUG_CPU_TYPE") == expected


def test_what_the_user_has_set_stays(fresh, monkeypatch):
    monkeypatch.setattr(runtime, "_cpu", lambda: ("AuthenticAMD", {"avx2"}))
    monkeypatch.setenv("MKL_DEBUG_CPU_TYPE", "4")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("FLAGS_use_stride_kernel", "1")
    assert runtime.configure() == {"threads": "3"}
    assert (os.environ["MKL_DEBUG_CPU_TYPE"], os.environ["OMP_NUM_THREADS"], fresh) == ("4", "3", [])


def test_off_changes_nothing(fresh, monkeypatch):
    monkeypatch.setenv("PASSL_RUNTIME", "off")
    assert runtime.configure(threads=2) == {}
    assert "OMP_NUM_THREADS" not in os.environ and fresh == []


def test_processes_of_one_machine_share_its_cores(fresh, monkeypatch):
    monkeypatch.setattr(runtime, "physical_cores", lambda: 8)
    monkeypatch.setenv("PADDLE_LOCAL_SIZE", "4")
    assert runtime.configure()["threads"] == "2"
    assert os.environ["OMP_NUM_THREADS"] == "2" and 2 in fresh


def test_a_later_number_of_threads_replaces_the_automatic_one_and_is_logged(fresh, monkeypatch):
    monkeypatch.setattr(runtime, "physical_cores", lambda: 8)
    lines = []
    runtime.configure()
    runtime.configure(threads=3, log=lines.append)
    assert fresh[0] == 8 and fresh[-1] == 3
    assert "threads 3" in lines[0]


def test_hyper_threads_affinity_and_a_containers_quota_limit_the_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(runtime, "_core_of", lambda cpu: str(cpu % 4))
    monkeypatch.setattr(runtime, "_container_quota", lambda: 100)
    assert runtime.physical_cores() == 4
    monkeypatch.setattr(runtime, "_container_quota", lambda: 3)
    assert runtime.physical_cores() == 3


@pytest.mark.parametrize("first", ["passl", "paddle"])
def test_a_fresh_process_gets_all_its_cores_whichever_is_imported_first(first):
    code = f"import os, {first}, passl.runtime as r; print(os.environ['OMP_NUM_THREADS'], r.physical_cores())"
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "PASSL_RUNTIME")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    threads, cores = done.stdout.split()
    assert threads == cores
    assert "OMP_NUM_THREADS" not in done.stderr  # Paddle warns when it finds more than one thread at import


class Small(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(12, 5)

    def forward(self, images):
        if images.shape[-1] != 2:
            raise ValueError("images must be 2 wide")
        return self.fc(images.flatten(1))


def test_a_compiled_model_gives_the_same_output_and_gradients():
    paddle.seed(0)
    model, images = Small(), paddle.randn([4, 3, 2, 2])
    expected = model(images)
    expected.sum().backward()
    gradient = model.fc.weight.grad.clone()
    model.clear_gradients()
    output = runtime.compile(model)(images)
    output.sum().backward()
    assert model.forward.static is not None and not model.forward.failed
    assert paddle.allclose(output, expected) and paddle.allclose(model.fc.weight.grad, gradient)


def test_a_copy_of_a_compiled_model_uses_its_own_weights():
    model = runtime.compile(Small())
    twin = copy.deepcopy(model)
    twin.fc.weight.set_value(paddle.zeros([12, 5]))
    twin.fc.bias.set_value(paddle.ones([5]))
    images = paddle.randn([1, 3, 2, 2])
    assert paddle.allclose(twin(images), paddle.ones([1, 5]))
    assert not paddle.allclose(model(images), twin(images))


class Untraceable(Small):
    def forward(self, images):
        if not paddle.in_dynamic_mode():
            raise NotImplementedError("an operation that graphs do not have")
        return self.fc(images.flatten(1))


def test_a_model_that_cannot_be_traced_stays_eager_with_a_warning():
    images = paddle.randn([1, 3, 2, 2])
    model = Untraceable()
    expected = model(images)
    runtime.compile(model)
    with pytest.warns(UserWarning, match="Untraceable stays eager: .*an operation that graphs do not have"):
        output = model(images)
    assert paddle.allclose(output, expected)
    assert paddle.allclose(model(images), expected)


def test_a_callers_mistake_is_raised_and_leaves_the_model_compiled():
    model = runtime.compile(Small())
    with pytest.raises(ValueError, match="2 wide"):
        model(paddle.randn([1, 3, 4, 1]))
    assert not model.forward.failed


def test_a_frozen_model_gives_the_eager_output_for_any_batch_size():
    paddle.seed(0)
    model = nn.Sequential(nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4), nn.GELU(), nn.Flatten(), nn.Linear(144, 5))
    run = runtime.freeze(model, image_shape=(3, 8, 8))
    assert model.training
    model.eval()
    for batch in (1, 4):
        images = paddle.randn([batch, 3, 8, 8])
        assert paddle.allclose(run(images), model(images), rtol=1e-4, atol=1e-5)
