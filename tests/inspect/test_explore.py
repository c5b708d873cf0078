"""The explorer's data: what a reader can find out from the page alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

import minicompile
from minicompile.cli import main
from minicompile.frontend import observer
from minicompile.inspect.explore import Exploration, embedded, explore
from tests.inspect.explored import BREAK_LINE, Scorer, calls, scaled


@pytest.fixture(scope="module")
def seen() -> Exploration:
    model = Scorer().eval()
    first, second, third = calls()
    with torch.no_grad():
        return explore(model, *first, more_calls=[second, (third[0].float(), 3.0)])


def lines_with(seen: Exploration, pane: str, key: str) -> list[str]:
    return [line[0] for listing in seen.data["panes"][pane] for line in listing["lines"] if key in line[1]]


def test_which_line_broke_the_graph(seen: Exploration) -> None:
    (row,) = seen.facts["breaks"]
    assert (row["line"], row["function"]) == (BREAK_LINE, "forward") and row["source"].startswith("if z.sum() > 0:")
    assert "torch.where(z.sum() > 0, a, b)" in row["rewrite"]


def test_what_was_fused_into_kernel_2(seen: Exploration) -> None:
    kernels = seen.facts["kernels"]
    assert [kernel["language"] for kernel in kernels][:2] == ["extern", "cpp"]
    second = kernels[2]
    assert second["ops"] and second["bytes"] and second["lines"] and second["keys"][0].endswith(second["name"])
    softmax = kernels[1]
    assert {"relu", "exp", "amax"} <= set(softmax["ops"]) or {"maximum", "exp", "amax"} <= set(softmax["ops"])
    assert any(place.endswith(f":{scaled.__code__.co_firstlineno + 1}") for place in softmax["lines"])


def test_which_guard_failed_on_the_third_call(seen: Exploration) -> None:
    first, second, third = seen.facts["calls"]
    assert (first["outcome"], second["outcome"], third["outcome"]) == ("compiled", "hit", "compiled again")
    assert first["failed"] == second["failed"] == [] and any("scale" in reason for reason in third["failed"])
    assert "float32[8, 16], 3.0" == third["arguments"]


def test_side_effects_know_both_places(seen: Exploration) -> None:
    effect = seen.facts["effects"][0]
    assert effect["line"] == BREAK_LINE - 1 and "last" in effect["statement"]
    glue = seen.data["panes"]["glue"][effect["entry"]]["lines"][effect["glue_line"] - 1]
    assert "last" in glue[0] and effect["key"] in glue[1]


def test_one_line_has_counterparts_everywhere(seen: Exploration) -> None:
    key = f"L:explored.py:{scaled.__code__.co_firstlineno + 1}"
    for pane in ("source", "bytecode", "fx", "ir"):
        assert lines_with(seen, pane, key), pane
    (source,) = [line for listing in seen.data["panes"]["source"] for line in listing["lines"] if key in line[1]]
    kernel = next(each for each in source[2] if each.startswith("K:0:"))
    assert len(lines_with(seen, "native", kernel)) > 5 and lines_with(seen, "wrapper", kernel)


def test_every_step_of_the_interpreter(seen: Exploration) -> None:
    first = seen.data["steps"][0]
    texts = seen.data["texts"]
    assert first["outcome"].startswith("graph break: ") and first["entry"] == 0
    assert max(step[3] for step in first["steps"]) >= 1, "the inlined call is stepped through"
    counts = [(step[6], step[7]) for step in first["steps"]]
    assert counts == sorted(counts) and counts[-1][0] == len(first["journal"]) == 1 and counts[-1][1] > 3
    assert any("softmax" in node for node, _ in first["nodes"])
    stacks = [texts[number] for step in first["steps"] for number in step[4]]
    assert any(text.endswith("not looked at") for text in stacks) and any("f32[8, 16]" in text for text in stacks)


def test_passes_are_shown_one_by_one() -> None:
    shown = explore(lambda x: torch.exp(x * 1) + torch.exp(x), torch.ones(4)).data["panes"]["ir"]
    titles = [listing["title"] for listing in shown]
    assert titles[0] == "graph 0: lowered"
    assert [title for title in titles if title.endswith("after cse")], titles
    texts = [re.sub("<[^>]*>", "", "".join(line[0] for line in listing["lines"])) for listing in shown]
    counts = [text.count("ops.exp(") for text in texts]
    assert counts[0] > counts[-1], "cse has merged the two exps"


def test_watching_changes_nothing() -> None:
    """The same guards, glue and results with an observer and without."""
    (args, *_) = calls()
    entries = []
    for watch in (False, True):
        model = Scorer().eval()
        compiled = minicompile.compile(model)
        if watch:
            from minicompile.inspect.recorder import Recorder

            with observer.watching(Recorder()):
                compiled(*args)
        else:
            with minicompile.config.patch(entry_cache=False):
                compiled(*args)
        entries.append([(str(entry.guards), entry.code) for entry in compiled.entries])
    assert entries[0] == entries[1] and observer.current() is None


def test_the_cut_of_a_training_graph_is_drawn() -> None:
    seen = explore(lambda x: torch.tanh(x * 2).sum(), torch.ones(8, requires_grad=True))
    ((title, svg),) = [each for each in seen.data["drawings"] if "backward orange" in each[0]]
    assert "32 B saved between" in title and "#fce0c3" in svg and "#cfe2f3" in svg and "#cc0000" in svg


def test_a_call_that_raises_is_told() -> None:
    seen = explore(lambda x: x.view(7), torch.ones(4))
    assert seen.calls[0].outcome.startswith("raised RuntimeError") and seen.facts["eager"]


def test_page_is_small_and_alone(seen: Exploration, tmp_path: Path) -> None:
    page = seen.to_html(tmp_path / "page.html")
    assert len(page.encode()) < 2_000_000 and (tmp_path / "page.html").read_text() == page
    assert "<link" not in page and " src=" not in page and "https://" not in page


def test_data_cannot_end_its_script() -> None:
    text = str(embedded({"a": "</script><b>\u2028"}))
    assert "<" not in text and json.loads(text) == {"a": "</script><b>\u2028"}


@pytest.mark.parametrize("name", ["InformationScorer", "TransformerBlock", "loop_with_print"])
def test_pages_of_the_demo(name: str, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert main(["explore", name, "--out", str(out)]) == 0
    assert 20_000 < out.stat().st_size < 2_000_000


def test_command_line_takes_several_calls(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    target = f"{__file__}:scaled"
    arguments = ["--args", "torch.ones(4), 2.0", "--args", "torch.ones(5), 2.0"]
    assert main(["explore", target, *arguments, "--out", str(out)]) == 0
    assert "float32[5], 2.0" in out.read_text()
