"""`compare`: both compilers' work in one form, as text, data and page; what is measured, and what is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import minicompile
from minicompile.cli import main
from minicompile.inspect.accuracy import in_float64, max_error
from minicompile.inspect.compare import Comparison, compare
from minicompile.inspect.inductor_text import kernels_of

NAN, INF = float("nan"), float("inf")


def entropy(x: torch.Tensor) -> torch.Tensor:
    p = torch.softmax(x, -1)
    return -(p * torch.log(p + 1e-8)).sum(-1)


def breaks(x: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x)
    if x.sum() > 0:
        return y * 2
    return y - 1


@pytest.fixture(scope="module")
def both() -> Comparison:
    """The entropy scorer through both compilers; the one place where Inductor runs."""
    with torch.no_grad():
        return compare(entropy, torch.randn(64, 256), rounds=2)


def test_both_stacks_say_what_they_made(both: Comparison) -> None:
    ours, theirs = both.stacks["minicompile"], both.stacks["torch.compile"]
    for stack in (ours, theirs):
        assert (stack.graphs, stack.breaks, len(stack.generated), stack.notes) == (1, [], 1, [])
        assert "softmax" in stack.captured[0].text and len(stack.lowered) == 1
        assert all(spent >= 0 for spent in stack.seconds.values()) and stack.seconds
    assert ours.bytes == ours.least_bytes == 64 * 256 * 4 + 64 * 4
    assert theirs.bytes is not None and theirs.bytes >= ours.bytes
    assert "aten.exp" in theirs.lowered[0].text and "ops.exp" in ours.lowered[0].text
    assert ours.kernels[0].ops.count("sum") == 2 and ours.kernels[0].lines == (f"{__file__}:21", f"{__file__}:22")


def test_what_is_measured(both: Comparison) -> None:
    assert set(both.times) == {"eager", "minicompile", "torch.compile"}
    assert set(both.first) == set(both.errors) == set(both.call_costs) == set(both.once) == set(both.stacks)
    assert set(both.errors64) == set(both.times) and all(error < 1e-4 for error in both.errors64.values())
    assert all(cost.median < both.first[name] for name, cost in both.call_costs.items())


def test_one_screen_of_text(both: Comparison) -> None:
    text = str(both)
    assert len(text.splitlines()) < 40 and max(map(len, text.splitlines())) <= 120
    for stack in both.stacks.values():
        assert stack.kernels[0].name in text


def test_json_is_everything(both: Comparison, tmp_path: Path) -> None:
    both.to_json(tmp_path / "c.json")
    data = json.loads((tmp_path / "c.json").read_text())
    assert data["stacks"]["torch.compile"]["code"][0]["text"] == both.stacks["torch.compile"].code[0].text
    assert data["times"]["eager"]["median"] == both.times["eager"].median


def test_page_needs_nothing_else(both: Comparison, tmp_path: Path) -> None:
    both.to_html(tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text()
    assert len(page) < 2_000_000
    assert "http:" not in page and "https:" not in page and "<link" not in page and "src=" not in page
    for stack in both.stacks.values():
        assert stack.kernels[0].name in page


def test_breaks_are_listed_with_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    result = compare(breaks, torch.ones(8), inductor=False, rounds=1)
    assert not capsys.readouterr().out
    (row,) = result.stacks["minicompile"].breaks
    assert (row.file, row.line, row.function) == (__file__, 27, "breaks") and "branch" in row.reason
    assert result.stacks["minicompile"].graphs == 2 and f"{Path(__file__).name}:27" in result.to_html()


def test_training_counts_both_halves() -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(x).sum()
        y.backward()
        return y.detach()

    result = compare(loss, torch.randn(8, requires_grad=True), inductor=False, rounds=1)
    assert result.stacks["minicompile"].kernels


@pytest.mark.parametrize(
    ("one", "other", "error"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.5),
        ([NAN, 1.0], [NAN, 1.0], 0.0),
        ([INF, 1.0], [INF, 1.0], 0.0),
        ([INF], [1.0], INF),
        ([NAN], [1.0], INF),
    ],
)
def test_max_error(one: list[float], other: list[float], error: float) -> None:
    assert max_error(torch.tensor(one), torch.tensor(other)) == error


def test_float64_is_left_out_where_it_cannot_be() -> None:
    x = torch.randn(4)
    assert in_float64(torch.sigmoid, (x,), {}).dtype is torch.float64
    assert in_float64(lambda t: t.float() + 1, (x,), {}) is None
    assert in_float64(lambda t: torch.mm(t, x), (x,), {}) is None
    module = torch.nn.Linear(4, 2)
    assert in_float64(module, (x,), {}).dtype is torch.float64 and module.weight.dtype is torch.float32


MODULE = '''
cpp_fused_gelu_view_2 = async_compile.cpp_pybinding(["float*"], r"""extern "C" void kernel(float* in_out_ptr0) {}""")
class Runner:
    def call(self, args):
        arg0_1, arg1_1 = args
        buf0 = empty_strided_cpu((4, 8), (8, 1), torch.float32)
        extern_kernels.mm(arg0_1, reinterpret_tensor(arg1_1, (4, 8), (8, 1), 0), out=buf0)
        buf1 = reinterpret_tensor(buf0, (32, ), (1, ), 0); del buf0  # reuse
        cpp_fused_gelu_view_2(buf1)
        buf5 = torch.ops.aten.sort.default(buf1)
        buf6 = buf5[0]
        assert_size_stride(buf6, (32, ), (1, ), 'sort')
        cpp_fused_gelu_view_2(buf6)
        return (buf6, )
def get_args():
    arg0_1 = rand_strided((4, 4), (4, 1), device='cpu', dtype=torch.float32)
    arg1_1 = rand_strided((s0, 8), (8, 1), device='cpu', dtype=torch.float32)
'''


def test_inductors_module_is_read() -> None:
    found = [(kernel.name, kernel.ops, kernel.bytes, kernel.is_extern) for kernel in kernels_of(MODULE)]
    gelu = ("cpp_fused_gelu_view_2", ("gelu", "view"), 2 * 32 * 4, False)
    assert found == [
        ("mm", ("mm",), 4 * (16 + 32 + 32), True), gelu, ("aten.sort.default", ("aten.sort.default",), 128, True), gelu,
    ]  # fmt: skip
    dynamic = MODULE.replace("reinterpret_tensor(arg1_1, (4, 8), (8, 1), 0)", "arg1_1")
    assert kernels_of(dynamic)[0].bytes is None


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = "import torch\ndef f(x):\n    return torch.relu(x + 1)\nf_args = (torch.ones(9),)\n"
    (tmp_path / "mine.py").write_text(program)
    target = f"{tmp_path}/mine.py:f"
    files = ["--json", str(tmp_path / "c.json"), "--html", str(tmp_path / "c.html")]
    assert main(["compare", target, "--no-inductor", "--rounds", "1", *files]) == 0
    assert "minicompile" in capsys.readouterr().out
    assert (tmp_path / "c.html").exists() and json.loads((tmp_path / "c.json").read_text())["title"] == "f"
    assert main(["explain", target, "--args", "torch.ones(3)"]) == 0
    assert "1 graph(s)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "args", "says"),
    [
        ("nowhere.py:f", None, "there is no file nowhere.py"),
        ("Nobody", None, "unknown program 'Nobody'"),
        (f"{__file__}:missing", None, "has no function 'missing'; it has"),
        (f"{__file__}:entropy", None, "what is entropy to be called with?"),
        (f"{__file__}:entropy", "torch.rand(", "SyntaxError"),
    ],
)
def test_command_line_says_what_is_missing(
    target: str, args: str | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", target, *(["--args", args] if args else [])]) == 2
    assert says in capsys.readouterr().err


def test_compare_is_public() -> None:
    assert minicompile.compare is compare


def test_no_rounds_are_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="at least one round, not 0"):
        compare(torch.neg, torch.ones(2), rounds=0)
