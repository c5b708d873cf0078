"""The explorer in a real browser: no complaint, lines light up, the interpreter steps, keys work, light and dark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch

from minicompile.inspect.compare import compare
from minicompile.inspect.explore import explore
from tests.inspect import browser
from tests.inspect.explored import BREAK_LINE, Scorer, calls

pytestmark = pytest.mark.skipif(bool(browser.why_not()), reason=browser.why_not())


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explore") / "page.html"
    first, *more = calls()
    with torch.no_grad():
        explore(Scorer().eval(), *first, more_calls=more[:1]).to_html(path)
    return path


@pytest.fixture
def opened(path: Path) -> Any:
    with browser.page() as (view, complaints):
        view.goto(path.as_uri())
        yield view
        assert complaints == []


def pane(view: Any, name: str) -> Any:
    return view.locator(f'.pane[data-view="{name}"]')


def show(view: Any, number: int, name: str, index: int | None = None) -> Any:
    slot = view.locator(f'.pane[data-slot="{number}"]')
    slot.locator("select.view").select_option(name)
    if index is not None:
        slot.locator("select.listing").select_option(str(index))
    return slot


def test_opens_quickly_and_shows_every_view(path: Path) -> None:
    with browser.page() as (view, complaints):
        start = time.perf_counter()
        view.goto(path.as_uri())
        view.wait_for_selector(".line")
        assert time.perf_counter() - start < 2 + 3 * _slowness()
        for option in view.locator('.pane[data-slot="3"] select.view option').all():
            slot = show(view, 3, option.get_attribute("value"))
            assert slot.locator(".body, .drawing").first.is_visible()
            text = slot.locator(".holder").inner_text()
            assert text.strip() or slot.locator("svg").count() == 1
        assert complaints == []


def _slowness() -> float:
    """Seconds that a loop takes which an idle machine does in about 0.1: tests share theirs."""
    start = time.perf_counter()
    sum(range(4_000_000))
    return time.perf_counter() - start


def test_hovering_lights_the_counterparts(opened: Any) -> None:
    show(opened, 1, "source", 1)  # the inlined function
    show(opened, 6, "native", 0)
    opened.get_by_text("torch.softmax(x * scale, -1)").first.hover()
    lit = opened.locator('.pane[data-slot="3"] .line.lit').all_inner_texts()
    assert any("ops.exp" in line for line in lit)
    assert opened.locator('.pane[data-slot="6"] .line.lit').count() > 5
    assert opened.locator('.pane[data-slot="5"] .line.lit').count() >= 1
    opened.locator("#title").hover()
    assert opened.locator(".line.lit").count() == 0


def test_a_click_holds_and_escape_lets_go(opened: Any) -> None:
    opened.locator('.pane[data-slot="5"] .line').first.click()  # the graph break
    opened.locator("#title").hover()
    lit = opened.locator('.pane[data-slot="1"] .line.lit').all_inner_texts()
    assert len(lit) == 1 and str(BREAK_LINE) in lit[0] and "if z.sum() > 0" in lit[0]
    opened.keyboard.press("Escape")
    assert opened.locator(".line.lit").count() == 0


def test_stepping_by_key_and_slider(opened: Any) -> None:
    steps = pane(opened, "steps")
    assert "stack" in steps.inner_text() and steps.locator(".steps-head span").inner_text().startswith("1 of ")
    for _ in range(4):
        opened.keyboard.press("ArrowRight")
    assert steps.locator(".steps-head span").inner_text().startswith("5 of ")
    assert opened.locator('.pane[data-view="bytecode"] .line.now').count() == 1
    slider = steps.locator("input")
    end = int(slider.get_attribute("max"))
    slider.evaluate("(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", end)
    text = steps.inner_text()
    assert "then: graph break" in text and "softmax" in text and "last" in text.split("journal")[1].split("graph so")[0]
    assert str(BREAK_LINE) in opened.locator('.pane[data-view="source"] .line.now').inner_text()
    opened.keyboard.press("ArrowLeft")
    assert steps.locator(".steps-head span").inner_text().startswith(f"{end} of ")


def test_walking_lines_by_key(opened: Any) -> None:
    opened.keyboard.press("1")
    for _ in range(2):
        opened.keyboard.press("ArrowDown")
    here = opened.locator('.pane[data-slot="1"] .line.here')
    assert here.count() == 1
    opened.keyboard.press("ArrowUp")
    assert opened.locator('.pane[data-slot="1"] .line').nth(0).get_attribute("class").count("here") == 1


def test_drawings_zoom_and_pan(opened: Any) -> None:
    if not show(opened, 3, "drawing").locator("svg").count():
        pytest.skip("no layout engine was found, so there are no drawings")
    holder = opened.locator(".drawing")
    opened.wait_for_function("document.querySelector('.drawing').dataset.scale")
    before = float(holder.get_attribute("data-scale"))
    opened.locator("#title").click()
    opened.keyboard.press("+")
    assert float(holder.get_attribute("data-scale")) == pytest.approx(before * 1.25)
    box = holder.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    style = holder.locator("svg").get_attribute("style")
    opened.mouse.move(x, y)
    opened.mouse.down()
    opened.mouse.move(x + 40, y + 10)
    opened.mouse.up()
    assert holder.locator("svg").get_attribute("style") != style
    opened.keyboard.press("0")
    assert float(holder.get_attribute("data-scale")) == pytest.approx(before)


@pytest.mark.parametrize("dark", [False, True])
def test_readable_in_light_and_dark(path: Path, dark: bool) -> None:
    with browser.page(dark=dark) as (view, complaints):
        view.goto(path.as_uri())
        assert view.locator("html").get_attribute("data-theme") == ("dark" if dark else "light")
        assert _contrast(view) > 4.5
        view.keyboard.press("t")
        assert view.locator("html").get_attribute("data-theme") == ("light" if dark else "dark")
        assert _contrast(view) > 4.5 and complaints == []


def _contrast(view: Any) -> float:
    """WCAG's ratio of the text's colour to the panel's, the least over the kinds of text that lines are made of."""
    colours = view.evaluate("""() => {
      const lines = [...document.querySelectorAll('.line, .line span')].filter((e) => e.textContent.trim());
      const panel = getComputedStyle(document.querySelector('.pane')).backgroundColor;
      return [panel, ...new Set(lines.map((e) => getComputedStyle(e).color))];
    }""")
    panel, *texts = [_luminance(colour) for colour in colours]
    return min((max(panel, text) + 0.05) / (min(panel, text) + 0.05) for text in texts)


def _luminance(colour: str) -> float:
    parts = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_compare_page_opens(tmp_path: Path) -> None:
    target = tmp_path / "compare.html"
    compare(torch.sigmoid, torch.ones(4), inductor=False, rounds=1).to_html(target)
    with browser.page() as (view, complaints):
        view.goto(target.as_uri())
        assert view.locator("h1").inner_text() == "sigmoid"
        view.locator("#theme").click()
        assert complaints == []
