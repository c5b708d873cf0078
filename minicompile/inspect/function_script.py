"""A function as a script that runs alone, as far as that can be had.

In: a function and the arguments of a call. Out: Python text: imports, the source of the function and of what it names,
arguments of the same shapes, strides and dtypes, and a call. Objects are made without their `__init__`, attribute by
attribute; what cannot be written down is None, with a comment.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import torch

from .scripts import TENSOR, value_text

_IMPORTS = ("from __future__ import annotations", "import math", "from math import inf, nan", "import torch")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_OURS = "minicompile"


def function_script(func: types.FunctionType, args: Any, kwargs: Any, *, comment: str, ending: str) -> str:
    """`ending` is run last; `function`, `args` and `kwargs` are at hand."""
    writer = _Writer()
    name = writer.function(func)
    arguments = f"args = {writer.value(tuple(args))}\nkwargs = {writer.value(dict(kwargs))}\n"
    head = "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
    imports = "".join(f"{line}\n" for line in writer.imports)
    body = "\n".join(writer.lines)
    main = f"if __name__ == '__main__':\n{textwrap.indent(ending.strip(), '    ')}\n"
    return f"{head}{imports}{TENSOR}{_NEW}{body}\nfunction = {name}\n{arguments}\n{main}"


_NEW = '''
def new(cls):
    """An object whose attributes come later."""
    return cls.__new__(cls)


'''


class _Writer:
    """Collects definitions, each before what reads it; `names`: id of what is written → its name."""

    def __init__(self) -> None:
        self.imports: dict[str, None] = dict.fromkeys(_IMPORTS)
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self.kept: list[Any] = []

    def _note(self, value: Any, name: str) -> str:
        self.names[id(value)] = name
        self.kept.append(value)
        return name

    # ---- functions and classes ----

    def function(self, func: types.FunctionType) -> str:
        if id(func) in self.names:
            return self.names[id(func)]
        source = _source(func)
        name = func.__name__ if func.__name__.isidentifier() else f"function_{len(self.names)}"
        self._note(func, name)
        self._surroundings(func)
        if source is None:
            self.lines.append(f"{name} = None  # the source of {func.__qualname__} is not at hand")
        else:
            self.lines.append(source if source.startswith(("def ", "async def ")) else f"{name} = {source}")
        for attribute, value in (("__defaults__", func.__defaults__), ("__kwdefaults__", func.__kwdefaults__)):
            if value and source is not None:
                self.lines.append(f"{name}.{attribute} = {self.value(value)}")
        return name

    def _surroundings(self, func: types.FunctionType) -> None:
        """What the function reads from around it becomes a global of the script."""
        cells = zip(func.__code__.co_freevars, func.__closure__ or (), strict=True)
        found = {name: cell.cell_contents for name, cell in cells if name != "__class__" and _is_full(cell)}
        found |= {name: func.__globals__[name] for name in _names(func.__code__) if name in func.__globals__}
        for name, value in found.items():
            text = self.value(value)
            if text != name:
                self.lines.append(f"{name} = {text}")

    def cls(self, cls: type) -> str:
        if id(cls) in self.names:
            return self.names[id(cls)]
        source = None if _is_library(cls) else _source(cls)
        if source is None:
            return self._imported(cls)
        self._note(cls, cls.__name__)
        for base in cls.__bases__:
            if base is not object:
                text = self.cls(base)
                if "." not in text and text != base.__name__:
                    self.lines.append(f"{base.__name__} = {text}")
        for member in vars(cls).values():
            member = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(member, types.FunctionType):
                self._surroundings(member)
        self.lines.append(source)
        return cls.__name__

    def _imported(self, value: Any) -> str:
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "<")
        if module == "builtins":
            return name
        if not module or "<" in name or module == "__main__":
            return f"None  # {name or type(value).__name__}: cannot be imported"
        self.imports[f"import {module}"] = None
        return f"{module}.{name}"

    # ---- values ----

    def value(self, value: Any) -> str:
        """An expression; what it needs has been written before."""
        if isinstance(value, _PLAIN) and type(value) in _PLAIN:
            return repr(value)
        if id(value) in self.names:
            return self.names[id(value)]
        if isinstance(value, torch.Tensor):
            text = value_text(value.data if isinstance(value, torch.nn.Parameter) else value)
            is_parameter = isinstance(value, torch.nn.Parameter)
            return self._assigned(value, f"torch.nn.Parameter({text}, {value.requires_grad})" if is_parameter else text)
        if isinstance(value, types.ModuleType):
            self.imports[f"import {value.__name__}"] = None
            return value.__name__
        if isinstance(value, (torch.dtype, torch.Size)):
            return str(value)
        if isinstance(value, torch.device):
            return f"torch.{value!r}"
        if type(value) in (list, tuple, set, dict):
            return self._container(value)
        return self._object(value)

    def _container(self, value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.value(k)}: {self.value(v)}" for k, v in value.items()) + "}"
        items = ", ".join(map(self.value, value))
        if isinstance(value, list):
            return self._assigned(value, f"[{items}]")
        return f"({items}{',' if len(value) == 1 else ''})" if isinstance(value, tuple) else f"set([{items}])"

    def _assigned(self, value: Any, text: str) -> str:
        """A variable, so that what is one object here is one object there."""
        name = self._note(value, f"value_{len(self.names)}")
        self.lines.append(f"{name} = {text}")
        return name

    def _object(self, value: Any) -> str:
        if isinstance(value, types.FunctionType):
            return self._imported(value) if _is_library(value) else self.function(value)
        if isinstance(value, types.MethodType):
            return f"{self.value(value.__self__)}.{value.__name__}"
        if isinstance(value, type):
            return self.cls(value)
        if isinstance(value, (types.BuiltinFunctionType, torch._ops.OpOverload)):
            return self._builtin(value)
        if isinstance(value, dict):
            return self._assigned(value, f"{self.cls(type(value))}({self._container(dict(value))})")
        if not hasattr(value, "__dict__"):
            return f"None  # a {type(value).__name__} cannot be written down"
        name = self._assigned(value, f"new({self.cls(type(value))})")
        for attribute, held in vars(value).items():
            self.lines.append(f"{name}.__dict__[{attribute!r}] = {self.value(held)}")
        return name

    def _builtin(self, value: Any) -> str:
        for module in (torch, torch.nn.functional):
            name = getattr(value, "__name__", "")
            if getattr(module, name, None) is value:
                return f"{module.__name__}.{name}"
        return self._imported(value)


def _is_library(value: Any) -> bool:
    """Whether a class or function is imported rather than written down."""
    package = (value.__module__ or "").split(".")[0]
    file = getattr(sys.modules.get(value.__module__ or ""), "__file__", None) or ""
    return package in sys.stdlib_module_names - {"__main__"} or package in ("torch", _OURS) or "site-packages" in file


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _source(value: Any) -> str | None:
    """The text of a definition without its decorators, or of a lambda; None where there is none."""
    try:
        text = textwrap.dedent(inspect.getsource(value))
        tree = ast.parse(text)
    except (OSError, TypeError, SyntaxError):
        return None
    wanted = (ast.Lambda,) if getattr(value, "__name__", "") == "<lambda>" else (
        ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)  # fmt: skip
    node: Any = next((each for each in ast.walk(tree) if isinstance(each, wanted)), None)
    if node is None:
        return None
    if hasattr(node, "decorator_list"):
        node.decorator_list = []
    return ast.unparse(node)
