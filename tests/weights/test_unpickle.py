# SPDX-License-Identifier: Apache-2.0
"""Weight files that try to run code are refused, and nothing has run."""

import io
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from passl.utils.errors import CheckpointError
from passl.weights.read import read_arrays
from passl.weights.unpickle import RestrictedUnpickler
from tests.weights.torch_writer import Call, Global, contiguous, write_legacy, write_zip


class Evil:
    """Pickles as a call of ``function(*arguments)``."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def attacks(canary):
    python = f"open({str(canary)!r}, 'w').close()"
    return {
        "os.system": Evil(os.system, f"touch {canary}"),
        "builtins.eval": Evil(eval, python),
        "builtins.exec": Evil(exec, python),
        "subprocess.Popen": Evil(subprocess.Popen, ["touch", str(canary)]),
        "builtins.getattr": Evil(getattr, [], "append"),
        "builtins.__import__": Evil(__import__, "os"),
        "numpy.load": Evil(np.load, str(canary)),
    }


NAMES = sorted(attacks(""))


@pytest.fixture
def canary(tmp_path):
    return tmp_path / "canary"


def test_the_attack_itself_works_on_pythons_unpickler(canary):
    for name in ("os.system", "builtins.eval", "builtins.exec"):
        pickle.loads(pickle.dumps(attacks(canary)[name]))
        assert canary.exists(), name
        canary.unlink()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", NAMES)
def test_a_pdparams_that_calls_a_function_is_refused(tmp_path, canary, name, protocol):
    path = tmp_path / "evil.pdparams"
    content = {"fc.weight": np.ones((2, 2), np.float32), "fc.bias": attacks(canary)[name]}
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    with pytest.raises(CheckpointError, match=r"refused") as caught:
        read_arrays(path)
    function = name.split(".")[-1]  # old protocols call modules by their names in Python 2
    assert f".{function}" in str(caught.value) and str(path) in str(caught.value)
    assert not canary.exists()


@pytest.mark.parametrize("write", [write_zip, write_legacy])
@pytest.mark.parametrize("place", ["top", "beside", "inside a tensor"])
def test_a_pth_that_calls_a_function_is_refused(tmp_path, canary, write, place):
    evil = Call(Global("os", "system"), (f"touch {canary}",))
    good = contiguous("0", np.ones(2, np.float32))
    nested = Call(Global("torch._utils", "_rebuild_parameter"), (good, evil, None))
    write(tmp_path / "evil.pth", {"top": evil, "beside": {"w": good, "x": evil}, "inside a tensor": nested}[place])
    with pytest.raises(CheckpointError, match=r"refused to load 'os\.system'"):
        read_arrays(tmp_path / "evil.pth")
    assert not canary.exists()


@pytest.mark.parametrize(
    "code",
    [
        b"(S'touch CANARY'\nios\nsystem\n.",  # INST
        b"(cos\nsystem\nS'touch CANARY'\no.",  # OBJ
        b"\x80\x02cos\nsystem\nU\x00\x85\x81.",  # NEWOBJ
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",  # STACK_GLOBAL
        b"\x80\x04\x8c\x0bcollections\x8c\x18OrderedDict.__init__.abc\x93.",  # a dotted name
        b"\x80\x02ccollections\nOrderedDict\n)R}U\x09__class__cos\nsystem\nsb.",  # BUILD
        b"\x80\x02\x82\x01.",  # EXT1
    ],
)
def test_every_way_of_naming_a_function_is_refused(tmp_path, canary, code):
    path = tmp_path / "evil.pdparams"
    path.write_bytes(code.replace(b"CANARY", str(canary).encode()))
    with pytest.raises(CheckpointError):
        read_arrays(path)
    assert not canary.exists()


def test_a_value_from_the_file_cannot_be_called(tmp_path):
    path = tmp_path / "evil.pdparams"
    for function in (b"cnumpy\nndarray\n", b"U\x01x", b"}"):
        path.write_bytes(b"\x80\x02" + function + b")R.")
        with pytest.raises(CheckpointError, match="cannot be called"):
            read_arrays(path)


def test_nothing_the_file_names_is_imported(tmp_path):
    path = tmp_path / "evil.pdparams"
    path.write_bytes(b"\x80\x02cantigravity\nfly\n)R.")
    with pytest.raises(CheckpointError, match=r"refused to load 'antigravity\.fly'"):
        read_arrays(path)
    assert "antigravity" not in sys.modules


def test_paddles_eval_of_a_static_tensor_is_understood_and_no_other(tmp_path):
    path = tmp_path / "static.pdparams"
    array = np.arange(3, dtype=np.float32)
    path.write_bytes(pickle.dumps({"fc_0.b_0": Evil(eval, "data", {"data": array})}, protocol=4))
    np.testing.assert_array_equal(read_arrays(path)["fc_0.b_0"], array)
    for arguments in (("data + 1", {"data": array}), ("data", {"data": 1}), ("data",)):
        path.write_bytes(pickle.dumps({"w": Evil(eval, *arguments)}, protocol=4))
        with pytest.raises(CheckpointError, match=r"refused builtins\.eval"):
            read_arrays(path)


def test_an_object_the_caller_knows_is_skipped_on_request(tmp_path):
    write_zip(
        tmp_path / "w.pth", {"w": contiguous("0", np.ones(2, np.float32)), "x": Call(Global("mine", "Box"), (1,))}
    )
    with pytest.raises(CheckpointError, match=r"ignore_globals=\['mine\.Box'\]"):
        read_arrays(tmp_path / "w.pth")
    assert list(read_arrays(tmp_path / "w.pth", ignore_globals=["mine.Box"])) == ["w"]


@pytest.mark.parametrize(
    "code",
    [
        b"\x80\x02}r\xff\xff\xff\xff.",  # a huge memo index
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",  # bytes without end
        b"\x80\x02" + b"]" * 200 + b"a" * 199 + b".",  # nested lists
        b"\x80\x02]q\x00h\x00a.",  # a list that holds itself
        b"\x80\x02" + b"]q\x00" + b"(h\x00h\x00e" * 60 + b".",  # a list that holds itself many times
        b"\x80\x02R.",
        b"\x80\x02.",
        b"\x80\x02K\x01",
        b"\x80\x02h\x07.",
    ],
)
def test_damaged_and_hostile_pickles_end_in_a_message(tmp_path, code):
    path = tmp_path / "w.pdparams"
    path.write_bytes(code)
    with pytest.raises(CheckpointError, match=r"w\.pdparams"):
        read_arrays(path)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_containers_equal_pythons_own(protocol):
    value = {"a": [1, -2, 2**70, 1.5, None, True, "é", b"\x00\xff"], ("k", 1): {"n": ()}, 3: ["x" * 300, []]}
    read = RestrictedUnpickler("p").load(io.BytesIO(pickle.dumps(value, protocol=protocol)))
    assert read == value


def test_shared_parts_stay_shared():
    part = [1]
    read = RestrictedUnpickler("p").load(io.BytesIO(pickle.dumps([part, part])))
    assert read[0] is read[1]
