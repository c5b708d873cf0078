"""The symbolic stack machine: runs a frame's instructions on values.

In: a frame. Out: the value that it returns. The rules for opcodes stand in `handlers_*.py`, one small function each, in
one dict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..shape_env import depends_on_data
from .breaks import FACTS_HINT, Break, BreakKind, SkipFrame, UserError, unsupported
from .values.base import NotConstant

if TYPE_CHECKING:
    from .bytecode import Instruction
    from .frame import Frame
    from .tracer import Tracer
    from .values.base import Value

Handler = Callable[["Tracer", "Frame", Any], "Value | None"]
HANDLERS: dict[str, Handler] = {}
"""Opcode (normalised) → rule. A rule gets the tracer, the frame and the instruction's argument; a value that it
returns is the frame's result."""

MAX_STEPS = 200_000
"""Instructions of one frame after which tracing gives up: a loop that long should not be unrolled."""


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Register the rule for opcodes."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


def step(tr: Tracer, frame: Frame, instruction: Instruction) -> Value | None:
    """Execute one instruction."""
    handler = instruction.handler
    if handler is None:
        handler = instruction.handler = HANDLERS.get(instruction.op)
        if handler is None:
            raise unsupported(f"The instruction {instruction.op} cannot be traced.")
    argument = instruction.target if instruction.target >= 0 else instruction.arg
    try:
        return handler(tr, frame, argument)
    except NotConstant:
        raise unsupported("The operation needs a constant, and gets an object that is none.") from None
    except Exception as error:  # torch has several kinds for it
        if not depends_on_data(error):
            raise
        raise Break(BreakKind.VALUE, "The value of a number that depends on data is needed.", FACTS_HINT) from None


def advance(tr: Tracer, frame: Frame) -> Value | None:
    """Execute the frame's next instruction; an error of the program goes to its handler in the frame, if it has one."""
    instruction = frame.decoded.instructions[frame.pc]
    frame.pc += 1
    if tr.observer is not None:
        tr.observer.step(tr, frame, instruction)
    try:
        result = step(tr, frame, instruction)
        tr.note_causes()
        return result
    except UserError as error:
        from .handlers_exceptions import catch

        tr.note_causes()
        if not catch(tr, frame, instruction, error):
            raise
        return None


def run(tr: Tracer, frame: Frame) -> Value:
    """Run an inlined frame to its return. A break inside is the caller's: it happens at the call."""
    steps = 0
    try:
        while True:
            result = advance(tr, frame)
            if result is not None:
                return result
            steps += 1
            if steps > MAX_STEPS:
                raise SkipFrame(f"{frame.code.co_name} runs more than {MAX_STEPS} instructions")
    except Break as broken:
        if broken.location is None:
            broken.location = frame.location()
        raise


def load_handlers() -> None:
    """Import the files that register rules."""
    from . import handlers_calls, handlers_control, handlers_data, handlers_exceptions, handlers_match  # noqa: F401
    from .values import (  # noqa: F401
        builtins,
        caches,
        checkpointing,
        contexts,
        control_flow,
        copying,
        custom_functions,
        deques,
        exceptions,
        functional_calls,
        getters,
        hashing,
        heaps,
        higher_order,
        inner_gradients,
        introspection,
        itertools_rules,
        known_results,
        lazy_properties,
        named_tuples,
        new_classes,
        new_leaves,
        operator_functions,
        optimizers,
        signatures,
        sizes,
        tees,
        tensor_hooks,
        texts,
        torch_functions,
        transforms,
        wrappers,
    )


load_handlers()
