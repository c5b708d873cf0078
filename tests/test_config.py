"""minicompile.config: typed options, errors that list what there is, patch."""

from pathlib import Path

import pytest

from minicompile.config import OPTIONS, Config, config


def test_defaults():
    fresh = Config()
    assert (fresh.recompile_limit, fresh.strict, fresh.dynamic, fresh.exact_rounding, fresh.cache_dir) == (
        8, False, None, False, None,
    )  # fmt: skip
    assert set(fresh.as_dict()) == set(OPTIONS)


@pytest.mark.parametrize(
    "use", [lambda c: c.recompile_limits, lambda c: setattr(c, "recompil", 3), lambda c: c.patch(x=1).__enter__()]
)
def test_an_unknown_option_lists_the_known_ones(use):
    with pytest.raises(ValueError, match="known options: cache_dir, .*recompile_limit, strict"):
        use(Config())


@pytest.mark.parametrize(
    ("name", "value"),
    [("strict", 1), ("recompile_limit", True), ("recompile_limit", "8"), ("dynamic", 1), ("cache_dir", 3)],
)
def test_a_value_of_a_wrong_type(name, value):
    with pytest.raises(TypeError, match=f"config.{name} must be"):
        setattr(Config(), name, value)


def test_a_value_out_of_range():
    with pytest.raises(ValueError, match="at least 1, not 0"):
        Config().recompile_limit = 0


def test_a_str_is_a_path_where_one_is_wanted():
    fresh = Config()
    fresh.cache_dir = "/nowhere"
    assert fresh.cache_dir == Path("/nowhere")


def test_patch_restores_also_after_an_error():
    with pytest.raises(KeyError), config.patch(strict=True, recompile_limit=2):
        assert config.strict and config.recompile_limit == 2
        raise KeyError
    assert not config.strict and config.recompile_limit == 8


def test_patch_changes_nothing_if_one_value_is_wrong():
    with pytest.raises(TypeError), config.patch(recompile_limit=2, strict="yes"):
        pass
    assert config.recompile_limit == 8


def test_debug_dir_from_the_environment(monkeypatch):
    monkeypatch.setenv("MINICOMPILE_DEBUG", "/somewhere")
    assert Config().debug_dir == Path("/somewhere")
    monkeypatch.setenv("MINICOMPILE_DEBUG", "")
    assert Config().debug_dir is None


def test_repr_explains_every_option():
    assert all(f"{name} = " in repr(config) and option.help in repr(config) for name, option in OPTIONS.items())
