"""Sizes and numbers that depend on data, where torch's own rules take something for granted: whatever the data says,
the result is eager's. Then what is not captured, and the options."""

from __future__ import annotations

import pytest
import torch

import minicompile
from minicompile import config
from minicompile.errors import GraphBreakError

from .test_data_dependent import CAPTURE, COUNTS, assert_equals, data, failures  # noqa: F401  (a fixture)

F = torch.nn.functional


def changed(x, m, n, view):
    """A captured tensor, changed through a view or a copy of it, whichever it is."""
    y = x[m]
    view(y).add_(1)
    return y


TRAPS = {
    "squeeze": lambda x, m, n: (x[m].squeeze(0) * 2, m.nonzero().squeeze() + 1),
    "squeeze, its shape": lambda x, m, n: len(x[m].squeeze().shape),
    "largest of none": lambda x, m, n: x[m].amax(0),
    "largest with places": lambda x, m, n: x[m].max(0),
    "where the smallest is": lambda x, m, n: x[m].argmin(),
    "median": lambda x, m, n: x[m].median(0).values,
    "norm by the largest": lambda x, m, n: x[m].norm(float("inf"), 0),
    "logsumexp": lambda x, m, n: x[m].logsumexp(0),
    "sum with five": lambda x, m, n: x[m] + x[:5],
    "sum with one": lambda x, m, n: x[m] + x[:1],
    "two of one size": lambda x, m, n: x[m] + x[x[:, 0] > 0],
    "a ones row": lambda x, m, n: torch.ones(n.item()) + torch.ones(5),
    "changed through a reshape": lambda x, m, n: changed(x, m, n, lambda y: y.t().reshape(-1)),
    "changed through contiguous": lambda x, m, n: changed(x, m, n, lambda y: y.t().contiguous()),
    "changed through a flat view": lambda x, m, n: changed(x, m, n, lambda y: y.view(-1)[:2]),
    "changed itself": lambda x, m, n: changed(x, m, n, lambda y: y),
    "row by number": lambda x, m, n: x[n.item()] * 2,
    "row from the end": lambda x, m, n: x[n.item() - 3] * 2,
    "rows from the end": lambda x, m, n: x[n.item() - 3 :] * 2,
    "rows between": lambda x, m, n: x[n.item() : (n * 2).item()] * 2,
    "a negative size": lambda x, m, n: torch.zeros(n.item() - 1) + 1,
    "a view by number": lambda x, m, n: x.view(n.item(), -1) * 2,
    "expanded by minus one": lambda x, m, n: x[:, :1].expand(-1, n.item() - 1) * 2,
    "the last": lambda x, m, n: x[m][-1] * 2,
    "the first": lambda x, m, n: x[m][0] * 2,
    "joined with none": lambda x, m, n: torch.cat([x[m, 0], torch.zeros(n.item())]),
    "best of some": lambda x, m, n: x[m].topk(2, 0).values,
    "windows": lambda x, m, n: x[m].unfold(0, 2, 1) * 2,
    "attention": lambda x, m, n: F.scaled_dot_product_attention(x[m][None], x[m][None], x[m][None]),
    "pooled": lambda x, m, n: F.max_pool1d(x[m][:, None], 2),
    "a row for each": lambda x, m, n: torch.einsum("ij,kj->ik", x[m], x),
    "diagonal": lambda x, m, n: torch.diag(x[m, 0]) + 1,
    "put back": lambda x, m, n: x.clone().masked_scatter(m[:, None], x[m] * 2),
    "stated": lambda x, m, n: (torch._check(n.item() >= 3), x.new_ones(n.item() - 2) * 2)[1],
    "stated as a size": lambda x, m, n: (torch._check_is_size(n.item(), max=5), x.new_ones(n.item()) * 2)[1],
    "stated, and decided": lambda x, m, n: (torch._check(n.item() > 0), x * 2 if n.item() > -1 else x)[1],
    "constrained": lambda x, m, n: (torch._constrain_as_size(n.item(), 0, 4), x.new_ones(n.item()) * 2)[1],
    "remainder": lambda x, m, n: x * (12 % max(n.item(), 1)),
    "a condition given back": lambda x, m, n: (x * 2, n.item() > 3, n.item() == 5),
    "divided by none": lambda x, m, n: x.sum() / x[m].shape[0],
}


@pytest.fixture(autouse=True)
def strict():
    with config.patch(strict=True, **CAPTURE):
        yield


def outcome(fn, args):
    try:
        return fn(*args)
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("name", TRAPS)
def test_never_wrong(name, monkeypatch):
    monkeypatch.setattr("minicompile.frontend.segments.MAX_MISSED_FACTS", len(COUNTS) + 1)
    fn = TRAPS[name]
    compiled = minicompile.compile(fn)
    for count in COUNTS:
        actual, expected = outcome(compiled, data(count)), outcome(fn, data(count))
        if isinstance(expected, str) or isinstance(actual, str):
            assert actual == expected, count
        else:
            assert_equals(actual, expected)
    first = compiled.context.first_segment(fn.__code__)
    assert len(list(first.entries)) == 1 and not compiled.breaks, (compiled.breaks, compiled.recompiles)


BREAKS = {
    "branch": (lambda x, m, n: x * 2 if n.item() > 3 else x - 1, "A branch depends on a number"),
    "branch on a size": (lambda x, m, n: x[m].sum() if x[m].shape[0] else x.sum(), "number that depends on data"),
    "range": (lambda x, m, n: sum(x * i for i in range(n.item())), "number that depends on data"),
    "list": (lambda x, m, n: (x * 2, [0] * n.item()), "number that depends on data"),
    "key": (lambda x, m, n: {n.item(): x * 2}, "number that depends on data"),
    "text": (lambda x, m, n: (x * 2, f"{n.item()} of them"), "number that depends on data"),
    "rows one by one": (lambda x, m, n: [row * 2 for row in x[m]], "number that depends on data"),
    "chunks": (lambda x, m, n: [part * 2 for part in x[m].chunk(2)], "has to know a size"),
    "bool": (lambda x, m, n: x * m.any().item(), "reads the numbers"),
    "after a change": (lambda x, m, n: (x.add_(1), x[m] * 2)[1], "after a tensor from outside was changed"),
    "in a transform": (lambda x, m, n: torch.func.vmap(lambda r: r * n.item())(x), "within the graph"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_breaks_says_why(name):
    fn, reason = BREAKS[name]
    compiled = minicompile.compile(fn)
    for count in COUNTS:
        assert_equals(compiled(*data(count)), fn(*data(count)))
    assert any(reason in record.reason for record in compiled.breaks), compiled.breaks
    if "branch" in name:
        assert "torch._check" in compiled.breaks[0].hint


def test_the_facts_are_checked_before_anything_else(failures):  # noqa: F811
    """A check that fails leaves no trace, and eager says what eager says."""
    seen = []

    def fn(x, m, n):
        seen.append(1)
        size = n.item()
        torch._check(size > 2, lambda: f"{size} are too few")
        return x.new_ones(size)

    compiled = minicompile.compile(fn)
    assert_equals(compiled(*data(5)), torch.ones(5))
    with pytest.raises(RuntimeError, match="1 are too few"):
        compiled(*data(1))
    assert len(failures) == 1 and len(seen) == 2


HABITS = {
    "number": (lambda x, m, n: x[m].squeeze(0) * 3, (2, 1, 1, 1, 1, 2, 1)),
    "size": (lambda x, m, n: (x.new_ones(n.item()) + x[:5, 0]) * 2, (5, 1, 1, 1, 1, 1)),
}


@pytest.mark.parametrize("name", HABITS)
def test_facts_that_never_hold_are_given_up(name, failures):  # noqa: F811
    """Call after call in eager would be slower than a break: compiled again, with one, and a record that says why."""
    fn, counts = HABITS[name]
    compiled = minicompile.compile(fn)
    for count in counts:
        assert_equals(compiled(*data(count)), fn(*data(count)))
    assert len(failures) == 3 and compiled.breaks
    (record,) = [record for record in compiled.recompiles if "3 times in a row" in str(record)]
    assert "taken for granted about data" in str(record)


def test_facts_that_hold_now_and_then_are_kept(failures):  # noqa: F811
    fn = HABITS["number"][0]
    compiled = minicompile.compile(fn)
    for count in (2, 1, 1, 2, 1, 1, 3, 1, 2):
        assert_equals(compiled(*data(count)), fn(*data(count)))
    assert len(failures) == 5 and not compiled.breaks and not compiled.recompiles
    whole = minicompile.compile(fn, fullgraph=True)
    for count in (2, 1, 1, 1, 1, 1):
        assert_equals(whole(*data(count)), fn(*data(count)))
    assert len(failures) == 10 and not whole.breaks


def test_options():
    """Nothing is captured by default; each option has its half; fullgraph has both; and torch's own options count."""
    import torch._dynamo.config as theirs

    def number(x, m, n):
        return x * n.item()

    def size(x, m, n):
        return x[m] * 2

    def breaks(fn, **options):
        compiled = minicompile.compile(fn, **options)
        for count in (3, 0):
            assert_equals(compiled(*data(count)), fn(*data(count)))
        return len(compiled.breaks)

    with config.patch(capture_scalar_outputs=False, capture_dynamic_output_shape_ops=False):
        assert breaks(number) and breaks(size)
        assert not breaks(number, fullgraph=True) and not breaks(size, fullgraph=True)
        assert not breaks(size, fullgraph=True, dynamic=False)
        with config.patch(capture_scalar_outputs=True):
            assert breaks(size) and not breaks(number)
        with config.patch(capture_dynamic_output_shape_ops=True):
            assert breaks(number) and not breaks(size)
        with theirs.patch(capture_scalar_outputs=True):
            assert breaks(size) and not breaks(number)
    with pytest.raises(GraphBreakError, match="torch._check"):
        minicompile.compile(BREAKS["branch"][0], fullgraph=True)(*data(3))


@pytest.mark.parametrize("backend", ["eager", lambda gm, examples: gm.forward])
@pytest.mark.parametrize("name", ["squeeze", "sum with five", "row by number", "stated", "two of one size"])
def test_other_backends_check_too(name, backend):
    fn = TRAPS[name]
    compiled = minicompile.compile(fn, backend=backend)
    for count in COUNTS:
        actual, expected = outcome(compiled, data(count)), outcome(fn, data(count))
        assert actual == expected if isinstance(expected, str) else assert_equals(actual, expected) is None


# ---- training ----

TRAINING = {
    "masked loss": lambda w, x, m, n: F.cross_entropy((x @ w)[m], m.nonzero()[:, 0] % 3, reduction="sum"),
    "masked mean": lambda w, x, m, n: ((x @ w)[m] ** 2).sum() / (m.sum().item() + 1),
    "rows by number": lambda w, x, m, n: (x[: n.item()] @ w).sin().sum(),
    "experts": lambda w, x, m, n: torch.zeros(12, 3).index_add(0, m.nonzero()[:, 0], (x[m] @ w).relu()),
    "two parts": lambda w, x, m, n: ((x[m] @ w).exp().sum(), (x[~m] @ w).tanh()),
    "repeated": lambda w, x, m, n: (x @ w).repeat_interleave(m.long(), 0).cos(),
    "a size given back": lambda w, x, m, n: ((x @ w)[m] * 2, m.nonzero().shape[0]),
    "without gradients inside": lambda w, x, m, n: (x @ w)[places(m)].sin(),
    "weights of that size": lambda w, x, m, n: (x @ w).mean(0) * w.new_ones(n.item(), 3),
}


def places(m):
    with torch.no_grad():
        return m.nonzero()[:, 0]


@pytest.mark.parametrize("name", TRAINING)
def test_gradients(name):
    fn = TRAINING[name]
    compiled = minicompile.compile(fn)
    for count in COUNTS:
        results = []
        for run in (compiled, fn):
            w = torch.randn(3, 3, generator=torch.Generator().manual_seed(7)).requires_grad_()
            found = run(w, *data(count))
            parts = [part for part in (found if isinstance(found, tuple) else (found,)) if torch.is_tensor(part)]
            sum(part.sum() for part in parts).backward()
            results.append((found, w.grad))
        assert_equals(*results)
    assert len(compiled.entries) == 1 and not compiled.breaks, compiled.breaks
